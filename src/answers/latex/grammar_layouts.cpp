// Fractions, binomials and matrices.
#include "answers/latex/grammar.h"

namespace deltasane::answers {

Grammar::Readings Grammar::fraction(int at) {
  Readings found;
  if (token(at + 1) != Token::left_brace) return found;
  for (const Reading& above : enclosed(at + 2, sum_, Token::right_brace)) {
    if (token(above.end) != Token::left_brace) continue;
    for (const Reading& below : enclosed(above.end + 1, sum_, Token::right_brace)) {
      Tree tree = divide(above.tree, below.tree);
      const int first = above.end + 1;
      if (below.end - first == 2 && token(first) == Token::differential) {
        const Tree variable = make_symbol(differential_variable(first), real_);
        const std::string numerator = text(at + 2, above.end - 1);
        if (numerator == "d")
          tree = make(Kind::subscripted, {variable}, "d/d");
        else if (numerator.starts_with('d'))
          tree =
              make(Kind::subscripted, {parse_again(numerator.substr(1)), variable}, "derivative");
      }
      add(found, below.end, tree);
    }
  }
  return found;
}

Grammar::Readings Grammar::binomial(int at) {
  Readings found;
  if (token(at) == Token::left_brace) {
    for (const Reading& above : memoized(sum_, at + 1)) {
      if (token(above.end) != Token::choose) continue;
      for (const Reading& below : enclosed(above.end + 1, sum_, Token::right_brace))
        add(found, below.end, make(Kind::apply, {above.tree, below.tree}, "binomial"));
    }
    return found;
  }
  if (token(at + 1) != Token::left_brace) return found;
  for (const Reading& above : enclosed(at + 2, sum_, Token::right_brace)) {
    if (token(above.end) != Token::left_brace) continue;
    for (const Reading& below : enclosed(above.end + 1, sum_, Token::right_brace))
      add(found, below.end, make(Kind::apply, {above.tree, below.tree}, "binomial"));
  }
  return found;
}

// Rows of cells; a cell ends in exactly one way, so this needs no alternatives.
Grammar::Readings Grammar::matrix(int at) {
  const Token opening = token(at);
  const Token closing = opening == Token::array_begin         ? Token::array_end
                        : opening == Token::determinant_begin ? Token::determinant_end
                                                              : Token::matrix_end;
  Node node;
  node.kind = Kind::matrix;
  size_t width = 0;
  bool ragged = false;
  for (int here = at + 1;;) {
    size_t cells = 0;
    for (;; ++here) {
      int end = -1;
      for (const Reading& cell : memoized(sum_, here)) {
        const Token next = token(cell.end);
        if (next != Token::column && next != Token::row && next != closing) continue;
        node.parts.push_back(cell.tree);
        end = cell.end;
        break;
      }
      if (end < 0) return {};
      ++cells;
      here = end;
      if (token(here) != Token::column) break;
    }
    if (node.rows++ == 0) width = cells;
    ragged = ragged || cells != width;
    if (token(here) == Token::row) ++here;
    if (token(here) != closing) continue;
    const Tree tree = ragged ? invalid_tree() : make(std::move(node));
    if (opening != Token::determinant_begin) return {{here + 1, tree}};
    return {{here + 1, make(Kind::apply, {tree}, "det")}};
  }
}

}  // namespace deltasane::answers
