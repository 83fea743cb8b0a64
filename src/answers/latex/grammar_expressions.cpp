#include <span>

#include "answers/latex/grammar.h"

namespace deltasane::answers {

namespace {

struct Bracket {
  Token open, close;
};

constexpr Bracket group_brackets[] = {
    {Token::left_paren, Token::right_paren},
    {Token::left_group, Token::right_group},
    {Token::left_brace, Token::right_brace},
    {Token::left_bracket, Token::right_bracket},
    {Token::left_brace_visual, Token::right_brace_visual},
    {Token::left_brace_word, Token::right_brace_word},
    {Token::left_bracket_word, Token::right_bracket_word},
};

constexpr Bracket absolutes[] = {
    {Token::bar, Token::bar}, {Token::left_vert, Token::right_vert}, {Token::vert, Token::vert}};
constexpr Bracket floors[] = {{Token::left_floor, Token::right_floor},
                              {Token::left_corner, Token::right_corner}};
constexpr Bracket ceilings[] = {{Token::left_ceil, Token::right_ceil},
                                {Token::upper_left_corner, Token::upper_right_corner}};

bool is_derivative_sign(const Node& node) { return node.text == "d/d" && node.parts.size() == 1; }

// Factors written side by side. An integer and a positive rational are a mixed number.
Tree beside(const Tree& left, const Tree& right) {
  if (left->kind == Kind::subscripted && is_derivative_sign(*left))
    return make(Kind::subscripted, {right, left->parts[0]}, "derivative");
  if (left->kind == Kind::nothing || left->kind == Kind::invalid) return left;
  if (right->kind == Kind::nothing || right->kind == Kind::invalid) return invalid_tree();
  if (is_integer(*left) && is_positive_rational(*right)) return make(Kind::mixed, {left, right});
  return multiply_deferred(left, right);
}

}  // namespace

Grammar::Readings Grammar::unary(int at, Functions functions) {
  const Token sign = token(at);
  if (sign != Token::plus && sign != Token::minus)
    return memoized(functions == allowed ? factors_ : plain_factors_, at);
  Readings found = memoized(functions == allowed ? unary_ : plain_unary_, at + 1);
  if (sign == Token::minus)
    for (Reading& reading : found) reading.tree = negate(reading.tree);
  return found;
}

// first, then any number of rest
Grammar::Readings Grammar::factors(int at, Memoized first, Memoized rest) {
  Readings found;
  for (const Reading& head : memoized(first, at)) {
    const bool alone = found.empty();  // then no end can come twice
    for (const Reading& tail : memoized(rest, head.end)) {
      if (!spend()) return {};
      if (alone)
        found.push_back({tail.end, beside(head.tree, tail.tree)});
      else
        add(found, tail.end, beside(head.tree, tail.tree));
    }
    const bool lone_sign = head.tree->kind == Kind::subscripted && is_derivative_sign(*head.tree);
    add(found, head.end, lone_sign ? invalid_tree() : head.tree);
  }
  return found;
}

Grammar::Readings Grammar::postfix(int at, Functions functions) {
  return extended(
      memoized(functions == allowed ? power_ : plain_power_, at),
      [&](const Reading& so_far) -> Readings {
        const auto& [end, tree] = so_far;
        switch (token(end)) {
          case Token::bang:
            return {{end + 1, make(Kind::apply, {tree}, "factorial")}};
          case Token::degree:
            return {{end + 1, tree}};
          case Token::transpose:
            return {{end + 1, tree->is_matrix ? make(Kind::apply, {tree}, "transpose") : tree}};
          case Token::bar:
            return evaluated_at(end, tree);
          default:
            return {};
        }
      });
}

// |_{...}^{...} behind an expression
Grammar::Readings Grammar::evaluated_at(int at, const Tree& value) {
  Readings found;
  const auto script = [&](int from, Token sign) -> Readings {
    if (token(from) != sign || token(from + 1) != Token::left_brace) return {};
    return enclosed(from + 2, relation_, Token::right_brace);
  };
  for (const Reading& above : script(at + 1, Token::caret)) {
    add(found, above.end, make(Kind::subscripted, {value, above.tree}, "at"));
    for (const Reading& below : script(above.end, Token::underscore))
      add(found, below.end, make(Kind::subscripted, {value, above.tree, below.tree}, "between"));
  }
  for (const Reading& below : script(at + 1, Token::underscore))
    add(found, below.end, make(Kind::subscripted, {value, below.tree}, "at"));
  return found;
}

Grammar::Readings Grammar::power(int at, Functions functions) {
  return extended(memoized(functions == allowed ? primary_ : plain_primary_, at),
                  [&](const Reading& base) {
                    Readings more;
                    if (token(base.end) != Token::caret) return more;
                    for (const Reading& exponent : superscript(base.end)) {
                      const Tree tree = make(Kind::power, {base.tree, exponent.tree});
                      for (const Reading& below : subscript(exponent.end))
                        add(more, below.end, tree);
                      add(more, exponent.end, tree);
                    }
                    return more;
                  });
}

Grammar::Readings Grammar::primary(int at, Functions functions) {
  Readings found;
  const Token first = token(at);
  for (const Bracket& bracket : group_brackets)
    if (first == bracket.open) add_all(found, enclosed(at + 1, sum_, bracket.close));
  if ((first == Token::phantom || first == Token::boxed) && token(at + 1) == Token::left_brace)
    add_all(found, enclosed(at + 2, sum_, Token::right_brace));
  const auto wrap = [&](std::span<const Bracket> brackets, const char* name) {
    for (const Bracket& bracket : brackets) {
      if (first != bracket.open) continue;
      for (const Reading& inner : enclosed(at + 1, sum_, bracket.close))
        add(found, inner.end, make(Kind::apply, {inner.tree}, name));
    }
  };
  if (first == Token::norm)
    for (const Reading& inner : enclosed(at + 1, sum_, Token::norm))
      add(found, inner.end,
          inner.tree->is_matrix ? make(Kind::apply, {inner.tree}, "norm") : invalid_tree());
  wrap(absolutes, "abs");
  if (first == Token::left_angle)
    for (const Reading& inner : enclosed(at + 1, sum_, Token::right_angle))
      add(found, inner.end, make(Kind::nothing, {}));
  wrap(floors, "floor");
  wrap(ceilings, "ceiling");
  if (functions == allowed) add_all(found, memoized(function_, at));
  add_all(found, memoized(atom_, at));
  if (first == Token::fraction) add_all(found, fraction(at));
  if (first == Token::binomial || first == Token::left_brace) add_all(found, binomial(at));
  if (first == Token::matrix_begin || first == Token::array_begin ||
      first == Token::determinant_begin)
    add_all(found, matrix(at));
  return found;
}

}  // namespace deltasane::answers
