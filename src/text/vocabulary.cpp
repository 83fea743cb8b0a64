#include "text/vocabulary.h"

#include <array>
#include <unordered_map>
#include <utility>

#include "text/cursor.h"

namespace deltasane {
namespace {

using Tokens = std::vector<std::string>;

void check_sizes(const Tokens& tokens, Place place) {
  if (int64_t(tokens.size()) > Vocabulary::most_tokens)
    fail(Fault::file, place.name, ": expected at most ", Vocabulary::most_tokens, " tokens, found ",
         tokens.size());
  size_t bytes = 0;
  for (place.number = 0; place.number < int64_t(tokens.size()); ++place.number) {
    const size_t length = tokens[size_t(place.number)].size();
    if (length > Vocabulary::longest_token)
      place.refuse("expected at most ", Vocabulary::longest_token, " bytes, found ", length);
    bytes += length;
    if (bytes > Vocabulary::most_bytes)
      place.refuse("expected at most ", Vocabulary::most_bytes, " bytes in all tokens, found more");
  }
}

void check_no_two_the_same(const Tokens& tokens, Place place) {
  std::unordered_map<std::string_view, int64_t> first;
  first.reserve(tokens.size());
  for (place.number = 0; place.number < int64_t(tokens.size()); ++place.number) {
    const std::string& token = tokens[size_t(place.number)];
    if (token.empty()) continue;
    const auto [known, added] = first.emplace(token, place.number);
    if (!added)
      place.refuse("expected bytes of its own, found ", printable(token), " as in ", place.kind,
                   " ", known->second);
  }
}

void check_every_byte(const Tokens& tokens, const Place& place) {
  std::array<bool, 256> known{};
  for (const std::string& token : tokens)
    if (token.size() == 1) known[uint8_t(token[0])] = true;
  for (int byte = 0; byte < 256; ++byte)
    if (!known[size_t(byte)])
      fail(Fault::file, place.name, ": expected a token for every byte, found none for ",
           printable(std::string(1, char(byte))));
}

}  // namespace

Vocabulary::Vocabulary(std::vector<std::string> tokens, std::string_view name,
                       std::string_view kind)
    : tokens_(std::move(tokens)) {
  const Place place{name, kind, 0};
  check_sizes(tokens_, place);
  if (!tokens_.empty() && !tokens_[0].empty())
    fail(Fault::file, name, ": expected no bytes for id 0, the end of document, found ",
         printable(tokens_[0]));
  check_no_two_the_same(tokens_, place);
  check_every_byte(tokens_, place);
}

}  // namespace deltasane
