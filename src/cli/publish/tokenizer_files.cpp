#include "cli/publish/tokenizer_files.h"

#include <nlohmann/json.hpp>

#include "base/cat.h"
#include "format/tokenizer/find_tokenizer.h"
#include "text/vocabulary/world_file.h"

namespace deltasane::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* module_name = "tokenization_world";

// Token bytes go through the library's texts as Latin-1, which has a character for every byte.
constexpr std::string_view module_text =
    R"py("""The RWKV World tokenizer: the longest token that fits, on the bytes of the text."""
import ast
import os
import shutil

from transformers import PreTrainedTokenizer


def read_vocabulary(path):
    """Bytes of a token to its id. A line is: id, Python literal, length in bytes."""
    ids = {}
    with open(path, encoding="utf-8", newline="\n") as lines:
        for line in lines:
            number, rest = line.split(" ", 1)
            literal, length = rest.rsplit(" ", 1)
            token = ast.literal_eval(literal)
            token = token.encode("utf-8") if isinstance(token, str) else token
            assert len(token) == int(length), line
            ids[token] = int(number)
    return ids


class WorldTokenizer(PreTrainedTokenizer):
    vocab_files_names = {"vocab_file": "rwkv_vocab_v20230424.txt"}
    model_input_names = ["input_ids", "attention_mask"]

    def __init__(self, vocab_file, **kwargs):
        self.vocab_file = vocab_file
        self.ids = read_vocabulary(vocab_file)
        self.tokens = {number: token for token, number in self.ids.items()}
        self.longest = {}  # by the first byte
        for token in self.ids:
            self.longest[token[0]] = max(len(token), self.longest.get(token[0], 0))
        super().__init__(**kwargs)

    @property
    def vocab_size(self):
        return len(self.ids) + 1  # and the end of a text

    def get_vocab(self):
        known = {token.decode("latin-1"): number for token, number in self.ids.items()}
        return {**known, **self.added_tokens_encoder}

    def _tokenize(self, text, **kwargs):
        data = text.encode("utf-8")
        found, at = [], 0
        while at < len(data):
            length = min(self.longest[data[at]], len(data) - at)
            while data[at : at + length] not in self.ids:
                length -= 1
            found.append(data[at : at + length].decode("latin-1"))
            at += length
        return found

    def _convert_token_to_id(self, token):
        return self.ids.get(token.encode("latin-1", errors="replace"), 0)

    def _convert_id_to_token(self, index):
        return self.tokens.get(index, b"").decode("latin-1")

    def convert_tokens_to_string(self, tokens):
        return "".join(tokens).encode("latin-1", errors="replace").decode("utf-8", errors="replace")

    def build_inputs_with_special_tokens(self, token_ids_0, token_ids_1=None):
        return token_ids_0 + (token_ids_1 or [])

    def save_vocabulary(self, save_directory, filename_prefix=None):
        name = self.vocab_files_names["vocab_file"]
        path = os.path.join(save_directory, f"{filename_prefix}-{name}" if filename_prefix else name)
        if os.path.abspath(path) != os.path.abspath(self.vocab_file):
            shutil.copyfile(self.vocab_file, path)
        return (path,)
)py";

constexpr const char* chat_template =
    "{% for message in messages %}"
    "{{ {'system': 'System', 'user': 'User', 'assistant': 'Assistant'}[message['role']] }}: "
    "{{ message['content'] | trim }}\n\n"
    "{% endfor %}"
    "{% if add_generation_prompt %}Assistant:{% endif %}";

Json tokenizer_config() {
  const char* const end = "<|rwkv_tokenizer_end_of_text|>";
  Json config{{"tokenizer_class", "WorldTokenizer"},
              {"auto_map", {{"AutoTokenizer", {cat(module_name, ".WorldTokenizer"), nullptr}}}},
              {"added_tokens_decoder",
               {{"0",
                 {{"content", end},
                  {"lstrip", false},
                  {"normalized", false},
                  {"rstrip", false},
                  {"single_word", false},
                  {"special", true}}}}},
              {"add_prefix_space", false},
              {"clean_up_tokenization_spaces", false},
              {"split_special_tokens", true},
              {"use_fast", false},
              {"chat_template", chat_template}};
  for (const char* const key : {"bos_token", "eos_token", "pad_token", "unk_token"})
    config[key] = end;
  return config;
}

}  // namespace

void write_vocabulary_file(const fs::path& folder, const Tokenizer& tokenizer) {
  if (tokenizer.name() == "world")
    replace_file(vocabulary_beside(folder), world_file_of(tokenizer));
}

std::string write_tokenizer_files(const fs::path& folder, const Tokenizer& tokenizer,
                                  const fs::path& json) {
  const bool bpe = tokenizer.name() != "world" && tokenizer.name() != "byte";
  if (bpe && !json.empty()) {
    replace_file(folder / "tokenizer.json", read_file(json));
    for (const char* const name : {"tokenizer_config.json", "chat_template.jinja"})
      if (fs::exists(json.parent_path() / name))
        replace_file(folder / name, read_file(json.parent_path() / name));
    return "Its tokenizer is in `tokenizer.json`; `AutoTokenizer` reads it.";
  }
  if (bpe)
    return "Its tokenizer is that of the model it was made from; copy tokenizer.json from there.";
  if (tokenizer.name() != "world")
    return "Its tokens are the bytes of the text, 0 to 255; there are no tokenizer files.";
  write_vocabulary_file(folder, tokenizer);
  replace_file(folder / cat(module_name, ".py"), module_text);
  replace_file(folder / "tokenizer_config.json", tokenizer_config().dump(2) + "\n");
  return "Its tokenizer is RWKV's World; `AutoTokenizer` needs `trust_remote_code=True` for it.";
}

}  // namespace deltasane::cli
