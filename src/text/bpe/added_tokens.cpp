#include "text/bpe/added_tokens.h"

#include <algorithm>

#include "text/unicode/character_class.h"

namespace deltasane {
namespace {

bool is_space(std::string_view character) {
  return unicode::first_character(character).kind == unicode::CharacterClass::space;
}

// Where the white space that ends text[from, to) begins.
size_t space_before(std::string_view text, size_t from, size_t to) {
  while (to > from) {
    size_t begin = to - 1;
    while (begin > from && to - begin < 4 && (uint8_t(text[begin]) & 0xC0) == 0x80) --begin;
    if (!is_space(text.substr(begin, to - begin)) ||
        unicode::first_character(text.substr(begin, to - begin)).length != to - begin)
      break;
    to = begin;
  }
  return to;
}

size_t space_after(std::string_view text, size_t from) {
  while (from < text.size() && is_space(text.substr(from)))
    from += unicode::first_character(text.substr(from)).length;
  return from;
}

}  // namespace

AddedTokens::AddedTokens(std::vector<AddedToken> tokens) : tokens_(std::move(tokens)) {
  std::sort(tokens_.begin(), tokens_.end(),
            [](const AddedToken& a, const AddedToken& b) { return a.content < b.content; });
  for (const AddedToken& token : tokens_) begins_[uint8_t(token.content[0])] = true;
}

// The tokens are sorted, so those that begin with the first n bytes of the text are a range, which
// narrows as n grows; one that is no longer than n is its first.
const AddedToken* AddedTokens::longest_at(std::string_view text) const {
  if (!begins_[uint8_t(text[0])]) return nullptr;
  const AddedToken* longest = nullptr;
  auto first = tokens_.begin(), last = tokens_.end();
  for (size_t n = 0; n < text.size() && first != last; ++n) {
    const auto byte = [n](const AddedToken& token) { return uint8_t(token.content[n]); };
    const auto wanted = uint8_t(text[n]);
    first = std::partition_point(first, last,
                                 [&](const AddedToken& token) { return byte(token) < wanted; });
    last = std::partition_point(first, last,
                                [&](const AddedToken& token) { return byte(token) == wanted; });
    if (first != last && first->content.size() == n + 1) longest = &*first++;
  }
  return longest;
}

AddedTokens::Match AddedTokens::next(std::string_view text, size_t from) const {
  if (!tokens_.empty())
    for (size_t at = from; at < text.size(); ++at)
      if (const AddedToken* const token = longest_at(text.substr(at))) {
        const size_t end = at + token->content.size();
        return {token->lstrip ? space_before(text, from, at) : at,
                token->rstrip ? space_after(text, end) : end, token};
      }
  return {text.size(), text.size(), nullptr};
}

}  // namespace deltasane
