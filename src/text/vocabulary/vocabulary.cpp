#include "text/vocabulary/vocabulary.h"

#include <array>
#include <unordered_map>
#include <utility>

#include "text/vocabulary/cursor.h"

namespace deltasane {
namespace {

using Tokens = std::vector<std::string>;

void check_sizes(const Tokens& tokens, InputLocation location) {
  if (int64_t(tokens.size()) > Vocabulary::max_tokens)
    fail(Fault::file, location.name, ": expected at most ", Vocabulary::max_tokens,
         " tokens, found ", tokens.size());
  size_t bytes = 0;
  for (location.number = 0; location.number < int64_t(tokens.size()); ++location.number) {
    const size_t length = tokens[size_t(location.number)].size();
    if (length > Vocabulary::max_token_bytes)
      location.reject("expected at most ", Vocabulary::max_token_bytes, " bytes, found ", length);
    bytes += length;
    if (bytes > Vocabulary::max_total_bytes)
      location.reject("expected at most ", Vocabulary::max_total_bytes,
                      " bytes in all tokens, found more");
  }
}

void check_distinct(const Tokens& tokens, InputLocation location) {
  std::unordered_map<std::string_view, int64_t> first;
  first.reserve(tokens.size());
  for (location.number = 0; location.number < int64_t(tokens.size()); ++location.number) {
    const std::string& token = tokens[size_t(location.number)];
    if (token.empty()) continue;
    const auto [known, added] = first.emplace(token, location.number);
    if (!added)
      location.reject("expected a distinct token, found ", printable(token), " as in ",
                      location.kind, " ", known->second);
  }
}

void check_every_byte(const Tokens& tokens, const InputLocation& location) {
  std::array<bool, 256> known{};
  for (const std::string& token : tokens)
    if (token.size() == 1) known[uint8_t(token[0])] = true;
  for (int byte = 0; byte < 256; ++byte)
    if (!known[size_t(byte)])
      fail(Fault::file, location.name, ": expected a token for every byte, found none for ",
           printable(std::string(1, char(byte))));
}

}  // namespace

Vocabulary::Vocabulary(std::vector<std::string> tokens, std::string_view name,
                       std::string_view kind)
    : tokens_(std::move(tokens)) {
  const InputLocation location{name, kind, 0};
  check_sizes(tokens_, location);
  if (!tokens_.empty() && !tokens_[0].empty())
    fail(Fault::file, name, ": expected no bytes for id 0, the end of document, found ",
         printable(tokens_[0]));
  check_distinct(tokens_, location);
  check_every_byte(tokens_, location);
}

}  // namespace deltasane
