// The tokens of the LaTeX grammar.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace deltasane::answers {

enum class Token : uint8_t {
  end,
  skip,
  plus,
  minus,
  times,
  over,
  colon,
  modulo,
  left_paren,
  right_paren,
  left_paren_visual,
  right_paren_visual,
  left_group,
  right_group,
  left_brace,
  right_brace,
  left_brace_visual,
  right_brace_visual,
  left_brace_word,
  right_brace_word,
  left_bracket,
  right_bracket,
  left_bracket_word,
  right_bracket_word,
  bar,
  left_vert,
  right_vert,
  vert,
  norm,
  left_angle,
  right_angle,
  left_floor,
  right_floor,
  left_corner,
  right_corner,
  left_ceil,
  right_ceil,
  upper_left_corner,
  upper_right_corner,
  phantom,
  boxed,
  limit,
  approaches,
  integral,
  sum,
  product,
  square_root,
  function,
  function_of_many,
  operator_name,
  name_of_function,
  name_of_function_of_many,
  fraction,
  binomial,
  choose,
  matrix_begin,
  matrix_end,
  array_begin,
  array_end,
  determinant_begin,
  determinant_end,
  column,
  row,
  underscore,
  caret,
  semicolon,
  comma,
  period,
  bang,
  transpose,
  degree,
  differential,
  euler,
  big_e,
  letter,
  number,
  scientific,
  percent_number,
  greek,
  other_symbol,
  infinity,
  partial,
  variable,
  accent,
  element_of,
  not_element_of,
  equals,
  identical_to,
  approximately,
  less,
  less_equal,
  greater,
  greater_equal,
  unequal,
  naturals,
  integers,
  rationals,
  reals,
  complexes,
  primes,
  empty_set,
  cup,
  cap,
  set_minus,
  plus_minus,
  superset,
  subset,
  other,  // a token of the grammar that no rule here uses
};

struct Lexeme {
  Token token = Token::end;
  std::string_view text;
};

// The tokens of a text, with an `end` behind them; nothing if some character starts no token or
// there are more than `most` of them.
std::optional<std::vector<Lexeme>> tokenize(std::string_view text, size_t most);

// The token that exactly this word is, or `end`.
Token fixed_word(std::string_view word);

}  // namespace deltasane::answers
