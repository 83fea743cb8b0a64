#include "text/bpe/fixture_bpe.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "base/cat.h"
#include "text/bpe/byte_letters.h"
#include "text/unicode/character_class.h"

namespace deltasane::test {
namespace {

constexpr std::string_view space_mark = "\u2581";

std::string byte_token(int byte) {
  constexpr std::string_view digits = "0123456789ABCDEF";
  return cat("<0x", digits[size_t(byte / 16)], digits[size_t(byte % 16)], ">");
}

std::vector<std::string> symbols_of(const BpeDefinition& definition, std::string_view piece) {
  std::vector<std::string> symbols;
  while (!piece.empty()) {
    if (definition.alphabet == BpeDefinition::Alphabet::bytes) {
      symbols.push_back(letters_of_bytes(piece.substr(0, 1)));
      piece.remove_prefix(1);
      continue;
    }
    const size_t length = unicode::first_character(piece).length;
    const std::string character(piece.substr(0, length));
    const auto& tokens = definition.tokens;
    if (std::find(tokens.begin(), tokens.end(), character) != tokens.end())
      symbols.push_back(character);
    else
      for (const char byte : character) symbols.push_back(byte_token(uint8_t(byte)));
    piece.remove_prefix(length);
  }
  return symbols;
}

}  // namespace

BpeDefinition random_bpe(Random& random, BpeDefinition::Alphabet alphabet, size_t merges) {
  BpeDefinition out;
  out.source = "random";
  out.alphabet = alphabet;
  std::vector<std::string> parts;  // that merges begin with
  for (int byte = 0; byte < 256; ++byte)
    out.tokens.push_back(alphabet == BpeDefinition::Alphabet::bytes
                             ? letters_of_bytes(std::string(1, char(byte)))
                             : byte_token(byte));
  if (alphabet == BpeDefinition::Alphabet::bytes) {
    out.pretokenizer = {Pretokenizer::Kind::words, true, 1};
    out.normalizers = {{BpeDefinition::Normalizer::Kind::nfc, {}, {}}};
    for (const std::string_view text : {"a", "b", "c", " ", "\xC3", "\xA9"})
      parts.push_back(letters_of_bytes(text));
  } else {
    out.normalizers = {{BpeDefinition::Normalizer::Kind::prepend, std::string(space_mark), {}},
                       {BpeDefinition::Normalizer::Kind::replace, " ", std::string(space_mark)}};
    out.space_letter = space_mark;
    out.strip_front = true;
    for (const std::string_view text : {"a", "b", "c", "\u2581", "\u00E9"})
      parts.emplace_back(text);
    out.tokens.insert(out.tokens.end(), parts.begin(), parts.end());
  }
  std::map<std::pair<std::string, std::string>, int> known;
  for (size_t tries = 0; tries < merges; ++tries) {
    const std::string left = parts[random.below(parts.size())];
    const std::string right = parts[random.below(parts.size())];
    if (left.size() + right.size() > 24 || !known.emplace(std::pair(left, right), 0).second)
      continue;
    out.merges.emplace_back(left, right);
    if (std::find(parts.begin(), parts.end(), left + right) != parts.end()) continue;
    parts.push_back(left + right);
    out.tokens.push_back(left + right);
  }
  const auto next = int32_t(out.tokens.size());
  out.added = {{next, "<|end|>", true},
               {next + 1, "<|im_start|>", true},
               {next + 2, "<think>", false}};
  return out;
}

std::vector<std::string> reference_pieces(const BpeDefinition& definition, std::string_view piece) {
  std::vector<std::string> symbols = symbols_of(definition, piece);
  while (true) {
    size_t best = definition.merges.size(), where = 0;
    for (size_t i = 0; i + 1 < symbols.size(); ++i)
      for (size_t rank = 0; rank < best; ++rank)
        if (definition.merges[rank].first == symbols[i] &&
            definition.merges[rank].second == symbols[i + 1])
          best = rank, where = i;
    if (best == definition.merges.size()) return symbols;
    symbols[where] += symbols[where + 1];
    symbols.erase(symbols.begin() + ptrdiff_t(where) + 1);
  }
}

std::string tokenizer_json(const BpeDefinition& definition) {
  using Json = nlohmann::ordered_json;
  const bool bytes = definition.alphabet == BpeDefinition::Alphabet::bytes;
  Json vocabulary = Json::object(), merges = Json::array(), added = Json::array();
  for (size_t id = 0; id < definition.tokens.size(); ++id) vocabulary[definition.tokens[id]] = id;
  for (const auto& [left, right] : definition.merges) merges.push_back({left, right});
  for (const AddedToken& token : definition.added)
    added.push_back({{"id", token.id},
                     {"content", token.content},
                     {"single_word", false},
                     {"lstrip", token.lstrip},
                     {"rstrip", token.rstrip},
                     {"normalized", token.normalized},
                     {"special", token.special}});
  const Json byte_level{{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}};
  const Json split{{"type", "Split"},
                   {"pattern", {{"Regex", definition.pretokenizer.expression()}}},
                   {"behavior", "Isolated"},
                   {"invert", false}};
  const Json mark{{"String", space_mark}};
  Json root{{"version", "1.0"}, {"added_tokens", added}};
  root["normalizer"] = {{"type", "NFC"}};
  root["pre_tokenizer"] = {{"type", "Sequence"}, {"pretokenizers", {split, byte_level}}};
  root["decoder"] = byte_level;
  if (!bytes) {
    root["normalizer"] = {
        {"type", "Sequence"},
        {"normalizers",
         {{{"type", "Prepend"}, {"prepend", space_mark}},
          {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", space_mark}}}}};
    root["pre_tokenizer"] = nullptr;
    root["decoder"] = {
        {"type", "Sequence"},
        {"decoders",
         {{{"type", "Replace"}, {"pattern", mark}, {"content", " "}},
          {{"type", "ByteFallback"}},
          {{"type", "Fuse"}},
          {{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}}}}};
  }
  root["post_processor"] = nullptr;
  root["model"] = {{"type", "BPE"},
                   {"byte_fallback", !bytes},
                   {"ignore_merges", definition.ignore_merges},
                   {"vocab", vocabulary},
                   {"merges", merges}};
  return root.dump();
}

}  // namespace deltasane::test
