#include "format/tokenizer/gguf_tokenizer.h"

#include <charconv>

#include "base/printable.h"
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

enum TokenType : int64_t { normal = 1, unknown, control, user_defined, unused, byte };

class GgufTokenizerReader {
 public:
  explicit GgufTokenizerReader(const TensorFile& file) : file_(file) { out_.source = file.path(); }

  BpeDefinition read() {
    read_pre(text("tokenizer.ggml.pre"));
    read_tokens();
    read_merges();
    for (const char* const key : {"eos", "eot", "eom"})
      if (const auto id = number(cat("tokenizer.ggml.", key, "_token_id")))
        out_.ends_text.push_back(*id);
    if (text("tokenizer.ggml.add_bos_token") == "true") {
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
      const int64_t type = token_types ? (*token_types)[id] : int64_t{normal};
      if (type == control || type == user_defined)
        out_.added.push_back({int32_t(id), tokens[id], type == control});
      else if (type == normal)
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

  const TensorFile& file_;
  BpeDefinition out_;
};

}  // namespace

BpeDefinition bpe_of_gguf(const TensorFile& file) { return GgufTokenizerReader(file).read(); }

}  // namespace deltasane
