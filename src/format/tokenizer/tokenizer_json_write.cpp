#include "format/tokenizer/tokenizer_json_write.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "format/tokenizer/tokenizer_json.h"
#include "text/bpe/byte_letters.h"

namespace deltasane {
namespace {

using Json = nlohmann::ordered_json;

Json step_of(const BpeDefinition::Normalizer& normalizer) {
  using Kind = BpeDefinition::Normalizer::Kind;
  switch (normalizer.kind) {
    case Kind::nfc:
      return {{"type", "NFC"}};
    case Kind::prepend:
      return {{"type", "Prepend"}, {"prepend", normalizer.text}};
    case Kind::replace:
      break;
  }
  return {{"type", "Replace"},
          {"pattern", {{"String", normalizer.text}}},
          {"content", normalizer.content}};
}

Json added_token(const AddedToken& token) {
  return {{"id", token.id},
          {"content", token.content},
          {"single_word", false},
          {"lstrip", token.lstrip},
          {"rstrip", token.rstrip},
          {"normalized", token.normalized},
          {"special", token.special}};
}

}  // namespace

std::string tokenizer_json_of(const BpeDefinition& definition) {
  if (definition.metaspace || !definition.start.empty())
    fail(Fault::argument, definition.source,
         ": expected a tokenizer without Metaspace and start of a document, found one with it");
  const bool bytes = definition.alphabet == BpeDefinition::Alphabet::bytes;
  Json vocabulary = Json::object(), merges = Json::array(), added = Json::array();
  for (size_t id = 0; id < definition.tokens.size(); ++id)
    if (!definition.tokens[id].empty()) vocabulary[definition.tokens[id]] = id;
  for (const auto& [left, right] : definition.merges) merges.push_back({left, right});
  for (const AddedToken& token : definition.added) added.push_back(added_token(token));
  Json normalizers = Json::array();
  for (const auto& one : definition.normalizers) normalizers.push_back(step_of(one));

  Json root{{"version", "1.0"}, {"added_tokens", added}};
  root["normalizer"] = normalizers.empty()       ? Json(nullptr)
                       : normalizers.size() == 1 ? normalizers[0]
                                                 : Json{{"type", "Sequence"},
                                                        {"normalizers", normalizers}};
  const Json byte_level{{"type", "ByteLevel"},
                        {"add_prefix_space", definition.space_in_front},
                        {"use_regex", false}};
  if (bytes) {
    Json steps = Json::array();
    if (definition.pretokenizer.kind != Pretokenizer::Kind::none)
      steps.push_back({{"type", "Split"},
                       {"pattern", {{"Regex", definition.pretokenizer.expression()}}},
                       {"behavior", "Isolated"},
                       {"invert", false}});
    steps.push_back(byte_level);
    root["pre_tokenizer"] = {{"type", "Sequence"}, {"pretokenizers", steps}};
    root["decoder"] = byte_level;
  } else {
    root["pre_tokenizer"] = nullptr;
    Json steps = Json::array();
    if (!definition.space_letter.empty())
      steps.push_back({{"type", "Replace"},
                       {"pattern", {{"String", definition.space_letter}}},
                       {"content", " "}});
    steps.push_back({{"type", "ByteFallback"}});
    steps.push_back({{"type", "Fuse"}});
    if (definition.strip_front)
      steps.push_back({{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}});
    root["decoder"] = {{"type", "Sequence"}, {"decoders", steps}};
  }
  root["post_processor"] = nullptr;
  root["model"] = {{"type", "BPE"},
                   {"byte_fallback", !bytes},
                   {"ignore_merges", definition.ignore_merges},
                   {"vocab", vocabulary},
                   {"merges", merges}};
  return root.dump();
}

BpeDefinition byte_level_bpe() {
  BpeDefinition out;
  out.source = "byte-level BPE";
  for (int byte = 0; byte < 256; ++byte)
    out.tokens.push_back(letters_of_bytes(std::string(1, char(byte))));
  const std::string space = letters_of_bytes(" ");
  out.merges = {{space, "t"}};
  out.tokens.push_back(space + "t");
  out.normalizers = {{BpeDefinition::Normalizer::Kind::nfc, {}, {}}};
  out.pretokenizer = {Pretokenizer::Kind::words, true, 1};
  out.added = {{int32_t(out.tokens.size()), "<|endoftext|>", true}};
  find_ends(out);
  return out;
}

}  // namespace deltasane
