#include "format/tokenizer/gguf_tokenizer.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <functional>
#include <unordered_set>

#include "base/printable.h"
#include "format/gguf/gguf_types.h"
#include "format/tokenizer/gguf_tokenizer_write.h"
#include "format/tokenizer/tokenizer_json.h"

namespace deltasane {
namespace {

struct KnownPre {
  std::string_view name;
  Pretokenizer pretokenizer;
  bool nfc = false, ignore_merges = false;
};
using PieceKind = Pretokenizer::Kind;
constexpr KnownPre known_pres[]{
    {"qwen35", {PieceKind::words, true, 1}, true},
    {"qwen2", {PieceKind::words, false, 1}, true},
    {"llama-bpe", {PieceKind::words, false, 3}, false, true},
    {"dbrx", {PieceKind::words, false, 3}},
    {"kimi-k2", {PieceKind::kimi}},
    {"gpt-2", {PieceKind::gpt2}},
};

enum TokenType : int32_t { normal = 1, unknown, control, user_defined, unused, byte };

class GgufTokenizerReader {
 public:
  explicit GgufTokenizerReader(const TensorFile& file) : file_(file) { out_.source = file.path(); }

  BpeDefinition read() {
    const bool llama = text("tokenizer.ggml.model") == "llama";
    llama ? set_llama() : read_pre(text("tokenizer.ggml.pre"));
    read_tokens();
    llama ? make_merges() : read_merges();
    for (const char* const key : {"eos", "eot", "eom"})
      if (const auto id = number(cat("tokenizer.ggml.", key, "_token_id")))
        out_.ends_text.push_back(*id);
    const std::string start = text("tokenizer.ggml.add_bos_token");
    if (start == "true" || (llama && start.empty())) {
      const auto id = number("tokenizer.ggml.bos_token_id");
      if (!id) reject("tokenizer.ggml.bos_token_id: expected an id, found none");
      out_.start = {*id};
    }
    out_.chat_template = text("tokenizer.chat_template");
    find_ends(out_);
    return std::move(out_);
  }

 private:
  template <class... Part>
  [[noreturn]] void reject(const Part&... part) const {
    fail(Fault::file, out_.source, ": ", part...);
  }
  std::string text(const std::string& key) const {
    const auto found = file_.metadata().find(key);
    return found == file_.metadata().end() ? "" : found->second;
  }
  std::optional<int32_t> number(const std::string& key) const {
    const std::string digits = text(key);
    if (digits.empty()) return std::nullopt;
    int32_t value = -1;
    const auto end = std::from_chars(digits.data(), digits.data() + digits.size(), value).ptr;
    if (value < 0 || end != digits.data() + digits.size())
      reject(key, ": expected an id, found ", printable(digits));
    return value;
  }

  void read_pre(const std::string& name) {
    std::string all;
    for (const KnownPre& known : known_pres) {
      all += cat(all.empty() ? "" : ", ", known.name);
      if (name != known.name) continue;
      out_.pretokenizer = known.pretokenizer;
      out_.ignore_merges = known.ignore_merges;
      if (known.nfc) out_.normalizers = {{BpeDefinition::Normalizer::Kind::nfc, {}, {}}};
      return;
    }
    reject("tokenizer.ggml.pre: expected one of ", all, ", found ",
           name.empty() ? "none" : printable(name));
  }

  void read_tokens() {
    const std::vector<std::string>& tokens = *file_.vocabulary();
    const std::vector<int64_t>* const token_types = file_.integers("tokenizer.ggml.token_type");
    if (token_types && token_types->size() != tokens.size())
      reject("tokenizer.ggml.token_type: expected ", tokens.size(), " types, found ",
             token_types->size());
    out_.tokens.resize(tokens.size());
    for (size_t id = 0; id < tokens.size(); ++id) {
      const int64_t type = token_types ? (*token_types)[id] : int64_t(normal);
      const bool llama = out_.alphabet == BpeDefinition::Alphabet::characters;
      if (type == control || type == user_defined || (llama && type == unknown))
        out_.added.push_back({int32_t(id), tokens[id], type != user_defined});
      else if (type == normal || (llama && type == byte))
        out_.tokens[id] = tokens[id];
      else if (type != unused)
        reject("tokenizer.ggml.token_type: token ", id,
               ": expected normal, control, user defined or unused (1, 3, 4, 5), found ", type);
    }
  }

  void read_merges() {
    const std::vector<std::string>* const merges = file_.texts("tokenizer.ggml.merges");
    if (!merges) reject("tokenizer.ggml.merges: expected an array of texts, found none");
    for (size_t rank = 0; rank < merges->size(); ++rank) {
      const std::string& pair = (*merges)[rank];
      const size_t space = pair.find(' ', 1);
      if (space == pair.npos)
        reject("tokenizer.ggml.merges: merge ", rank, ": expected two tokens, found ",
               printable(pair));
      out_.merges.emplace_back(pair.substr(0, space), pair.substr(space + 1));
    }
  }

  // SentencePiece's: spaces are written as U+2581, one is put in front, and what has no token is
  // written as bytes.
  void set_llama() {
    using Normalizer = BpeDefinition::Normalizer;
    const std::string mark = "\u2581";
    if (text("tokenizer.ggml.remove_extra_whitespaces") == "true")
      reject("tokenizer.ggml.remove_extra_whitespaces: expected false, found true");
    out_.alphabet = BpeDefinition::Alphabet::characters;
    out_.space_letter = mark;
    out_.strip_front = text("tokenizer.ggml.add_space_prefix") != "false";
    if (out_.strip_front) out_.normalizers.push_back({Normalizer::Kind::prepend, mark, {}});
    out_.normalizers.push_back({Normalizer::Kind::replace, " ", mark});
  }

  // Any two tokens join that are a third one together, those of the highest score first. Limits are
  // for untrusted input.
  void make_merges() {
    constexpr size_t longest = 256, most = size_t{1} << 22;
    const std::vector<float>* const scores = file_.reals("tokenizer.ggml.scores");
    if (!scores || scores->size() != out_.tokens.size())
      reject("tokenizer.ggml.scores: expected ", out_.tokens.size(), " numbers (f32), found ",
             scores ? cat(scores->size()) : "none");
    std::unordered_set<std::string_view> known;
    std::vector<size_t> order;
    for (size_t id = 0; id < out_.tokens.size(); ++id) {
      const std::string& token = out_.tokens[id];
      const bool is_byte = token.size() == 6 && token.starts_with("<0x") && token.ends_with('>');
      if (token.empty() || is_byte) continue;
      if (!std::isfinite((*scores)[id]) || token.size() > longest)
        reject("token ", id, ": expected a finite score and at most ", longest, " bytes, found ",
               (*scores)[id], " and ", token.size());
      known.insert(token), order.push_back(id);
    }
    std::ranges::stable_sort(order, std::ranges::greater(),
                             [&](size_t id) { return (*scores)[id]; });
    uint32_t rank = 0;
    for (size_t i = 0; i < order.size(); ++i) {
      if (i > 0 && (*scores)[order[i]] != (*scores)[order[i - 1]]) ++rank;
      const std::string_view token = out_.tokens[order[i]];
      for (size_t cut = 1; cut < token.size(); ++cut) {
        if ((uint8_t(token[cut]) & 0xC0) == 0x80) continue;  // inside of a character
        const std::string_view left = token.substr(0, cut), right = token.substr(cut);
        if (!known.contains(left) || !known.contains(right)) continue;
        out_.merges.emplace_back(left, right), out_.ranks.push_back(rank);
        if (out_.merges.size() > most)
          reject("tokenizer.ggml.tokens: expected at most ", most, " pairs that join, found more");
      }
    }
  }

  const TensorFile& file_;
  BpeDefinition out_;
};

}  // namespace

std::vector<GgufEntry> gguf_bpe_tokenizer(const BpeDefinition& definition, int64_t size,
                                          const std::string& what) {
  const bool nfc = definition.normalizers.size() == 1 &&
                   definition.normalizers[0].kind == BpeDefinition::Normalizer::Kind::nfc;
  const auto pre = std::ranges::find_if(known_pres, [&](const KnownPre& known) {
    return known.pretokenizer == definition.pretokenizer && known.nfc == nfc &&
           known.ignore_merges == definition.ignore_merges;
  });
  const bool plain = definition.alphabet == BpeDefinition::Alphabet::bytes &&
                     definition.normalizers.size() == size_t(nfc) && !definition.metaspace &&
                     !definition.space_in_front;
  if (!plain || pre == std::end(known_pres))
    fail(Fault::usage, what, ": expected a byte-level BPE with a pre-tokenizer that GGUF names, found ",
         definition.source, "; write .safetensors");
  std::vector<std::string> tokens = definition.tokens, merges;
  for (const AddedToken& added : definition.added)
    tokens.resize(std::max(tokens.size(), size_t(added.id) + 1));
  if (tokens.size() > size_t(size))
    fail(Fault::argument, what, ": expected a vocabulary of at most ", size, " tokens, found ",
         tokens.size());
  tokens.resize(size_t(size));
  std::vector<int32_t> types(tokens.size(), normal);
  for (const AddedToken& added : definition.added) {
    tokens[size_t(added.id)] = added.content;
    types[size_t(added.id)] = added.special ? control : user_defined;
  }
  for (size_t id = 0; id < tokens.size(); ++id)
    if (tokens[id].empty()) tokens[id] = cat("[PAD", id, "]"), types[id] = unused;
  for (const auto& [first, second] : definition.merges) merges.push_back(cat(first, " ", second));
  std::vector<GgufEntry> entries;
  if (!definition.chat_template.empty())
    entries.push_back({"tokenizer.chat_template", definition.chat_template});
  entries.push_back({"tokenizer.ggml.add_bos_token", !definition.start.empty()});
  if (!definition.start.empty())
    entries.push_back({"tokenizer.ggml.bos_token_id", uint32_t(definition.start[0])});
  // The end of a turn, where there is one: llama.cpp stops there.
  if (!definition.ends_text.empty())
    entries.push_back({"tokenizer.ggml.eos_token_id", uint32_t(definition.ends_text[0])});
  if (definition.end_of_document)
    entries.push_back({"tokenizer.ggml.padding_token_id", uint32_t(*definition.end_of_document)});
  entries.push_back({"tokenizer.ggml.merges", std::move(merges)});
  entries.push_back({"tokenizer.ggml.model", std::string("gpt2")});
  entries.push_back({"tokenizer.ggml.pre", std::string(pre->name)});
  entries.push_back({"tokenizer.ggml.token_type", std::move(types)});
  entries.push_back({std::string(gguf_tokens_key), std::move(tokens)});
  return entries;
}

BpeDefinition bpe_of_gguf(const TensorFile& file) { return GgufTokenizerReader(file).read(); }

}  // namespace deltasane
