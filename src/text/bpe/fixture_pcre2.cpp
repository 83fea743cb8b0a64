#include "text/bpe/fixture_pcre2.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <map>

#include "base/error.h"

namespace deltasane::test {
namespace {

pcre2_code* compiled(const std::string& expression) {
  static std::map<std::string, pcre2_code*> known;
  pcre2_code*& code = known[expression];
  int error = 0;
  size_t at = 0;
  if (!code)
    code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(expression.data()), expression.size(),
                         PCRE2_UTF | PCRE2_UCP, &error, &at, nullptr);
  require(code, "PCRE2 accepts the expression");
  return code;
}

}  // namespace

std::optional<std::vector<std::string>> pcre2_pieces(const std::string& expression,
                                                     std::string_view text) {
  pcre2_code* const code = compiled(expression);
  pcre2_match_data* const match = pcre2_match_data_create_from_pattern(code, nullptr);
  std::vector<std::string> pieces;
  size_t at = 0;
  while (at < text.size() &&
         pcre2_match(code, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), at,
                     PCRE2_NOTEMPTY, match, nullptr) > 0) {
    const size_t* const ends = pcre2_get_ovector_pointer(match);
    if (ends[0] > at) pieces.emplace_back(text.substr(at, ends[0] - at));
    pieces.emplace_back(text.substr(ends[0], ends[1] - ends[0]));
    at = ends[1];
  }
  if (at < text.size()) pieces.emplace_back(text.substr(at));
  pcre2_match_data_free(match);
  return pieces;
}

}  // namespace deltasane::test
