#include "text/bpe/fixture_bpe.h"

#include <algorithm>
#include <map>

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

}  // namespace deltasane::test
