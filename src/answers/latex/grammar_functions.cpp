#include <algorithm>
#include <array>
#include <cctype>

#include "answers/latex/grammar.h"

namespace deltasane::answers {

namespace {

bool one_of(std::string_view name, std::initializer_list<std::string_view> names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

bool is_minus_one(const Tree& tree) {
  return tree && tree->kind == Kind::integer && tree->negative && tree->text == "1";
}

bool is_zero(const Tree& tree) { return tree->kind == Kind::integer && tree->text == "0"; }

}  // namespace

Grammar::Readings Grammar::function(int at) {
  Readings found;
  switch (token(at)) {
    case Token::function:
      return named_function(at);
    case Token::function_of_many:
      return function_of_many(at);
    case Token::operator_name:
      if (token(at + 1) != Token::left_brace || token(at + 3) != Token::right_brace) return {};
      if (token(at + 2) == Token::name_of_function) return named_function(at);
      if (token(at + 2) == Token::name_of_function_of_many) return function_of_many(at);
      return {};
    case Token::letter:
    case Token::greek:
    case Token::other_symbol:
    case Token::accent:
      return unknown_function(at);
    case Token::integral:
      return integral(at);
    case Token::square_root:
      return root(at);
    case Token::sum:
    case Token::product:
      return sum_or_product(at);
    case Token::limit:
      return limit(at);
    case Token::euler:
      for (const Reading& above : superscript(at + 1))
        add(found, above.end, make(Kind::power, {make(Kind::euler, {}), above.tree}));
      add(found, at + 1, make(Kind::euler, {}));
      return found;
    default:
      return {};
  }
}

std::vector<Grammar::Scripts> Grammar::scripts(int at) {
  std::vector<Scripts> all;
  for (const Reading& below : subscript(at)) {
    for (const Reading& above : superscript(below.end))
      all.push_back({above.end, below.tree, above.tree});
    all.push_back({below.end, below.tree, nullptr});
  }
  for (const Reading& above : superscript(at)) {
    all.push_back({above.end, nullptr, above.tree});
    for (const Reading& below : subscript(above.end))
      all.push_back({below.end, below.tree, above.tree});
  }
  all.push_back({at, nullptr, nullptr});
  return all;
}

Tree Grammar::apply_function(std::string_view name, const Tree& argument,
                             const Scripts& marks) const {
  Tree above = marks.above;
  std::string known(name);
  if (known.starts_with("arc"))
    known = "a" + known.substr(3);
  else if (one_of(known, {"arsinh", "arcosh", "artanh"}))
    known = "a" + known.substr(2);
  if (one_of(known, {"sin", "cos", "tan", "csc", "sec", "cot", "sinh", "cosh", "tanh"}) &&
      is_minus_one(above)) {
    known = "a" + known;
    above = nullptr;
  }
  if (known == "ceil") known = "ceiling";
  if (known == "tr") known = "trace";
  const bool of_matrix = one_of(known, {"det", "trace", "rank", "norm"});
  if (one_of(known, {"eye", "rref", "nullspace", "eig", "eigen", "diagonalize", "eigenvals",
                     "eigenvalues", "eigenvects", "eigenvectors", "svd", "SVD", "cols", "rows"}))
    return invalid_tree();
  if (of_matrix && !argument->is_matrix) return invalid_tree();
  Tree tree;
  if (known == "exp")
    tree = make(Kind::power, {make(Kind::euler, {}), argument});
  else if (known == "ln" || known == "log")
    tree = make(Kind::apply,
                {argument, marks.below     ? marks.below
                           : known == "ln" ? make(Kind::euler, {})
                                           : make_integer("10")},
                "log");
  else
    tree = make(Kind::apply, {argument}, known);
  return above && !is_zero(above) ? make(Kind::power, {tree, above}) : tree;
}

Grammar::Readings Grammar::named_function(int at) {
  const bool by_name = token(at) == Token::operator_name;
  const std::string_view name = by_name ? text(at + 2) : text(at).substr(1);
  Readings found;
  for (const Scripts& marks : scripts(at + (by_name ? 4 : 1))) {
    if (token(marks.end) == Token::left_paren)
      for (const Reading& argument : enclosed(marks.end + 1, sum_, Token::right_paren))
        add(found, argument.end, apply_function(name, argument.tree, marks));
    for (const Reading& argument : memoized(plain_product_, marks.end))
      add(found, argument.end, apply_function(name, argument.tree, marks));
  }
  return found;
}

Grammar::Readings Grammar::function_of_many(int at) {
  const bool by_name = token(at) == Token::operator_name;
  const std::string name(by_name ? text(at + 2) : text(at).substr(1));
  const bool known = one_of(name, {"gcd", "lcm", "max", "min"});
  Readings found;
  for (const Scripts& marks : scripts(at + (by_name ? 4 : 1))) {
    if (token(marks.end) == Token::left_paren)
      for (const Reading& list : arguments(marks.end + 1)) {
        if (token(list.end) != Token::right_paren) continue;
        const bool many = list.tree->kind == Kind::tuple && list.tree->text == "arguments";
        const std::vector<Tree> parts = many ? list.tree->parts : std::vector<Tree>{list.tree};
        Tree tree = known ? make(Kind::apply, parts, name) : invalid_tree();
        if (marks.above) tree = make(Kind::power, {tree, marks.above});
        add(found, list.end + 1, tree);
      }
    for (const Reading& argument : memoized(plain_product_, marks.end))
      add(found, argument.end, invalid_tree());
  }
  return found;
}

// f(x), f(x, y), f[x], f{(x)}; the argument is an atom or a list with a comma
Grammar::Readings Grammar::unknown_function(int at) {
  Readings found, names;
  for (const Reading& below : subscript(at + 1)) add(names, below.end, nullptr);
  add(names, at + 1, nullptr);
  const auto calls = [&](const std::string& name, int from, const Tree& above) {
    const bool brace = token(from) == Token::left_brace;
    const int open = from + brace;
    const Token opening = token(open);
    if (opening != Token::left_paren && opening != Token::left_bracket) return;
    const Token closing = opening == Token::left_paren ? Token::right_paren : Token::right_bracket;
    const auto put = [&](int end, std::vector<Tree> parts) {
      if (token(end) != closing || (brace && token(end + 1) != Token::right_brace)) return;
      Tree tree = make(Kind::call, std::move(parts), name);
      if (above) tree = make(Kind::power, {tree, above});
      add(found, end + 1 + brace, tree);
    };
    for (const Reading& argument : memoized(atom_, open + 1)) put(argument.end, {argument.tree});
    for (const Reading& list : arguments(open + 1)) {
      const bool many = list.tree->kind == Kind::tuple && list.tree->text == "arguments";
      if (many) put(list.end, list.tree->parts);
      if (!many && token(list.end) == Token::comma) put(list.end + 1, {list.tree});
    }
  };
  for (const Reading& reading : names) {
    const std::string name = text(at, reading.end);
    for (const Reading& above : superscript(reading.end)) calls(name, above.end, above.tree);
    calls(name, reading.end, nullptr);
  }
  return found;
}

Grammar::Readings Grammar::integral(int at) {
  Readings found;
  for (const Scripts& marks : scripts(at + 1)) {
    if (bool(marks.below) != bool(marks.above)) continue;
    const auto put = [&](int end, Tree body, Tree variable) {
      std::vector<Tree> parts = {std::move(body), std::move(variable)};
      if (marks.below) parts.insert(parts.end(), {marks.below, marks.above});
      add(found, end, make(Kind::subscripted, std::move(parts), "integral"));
    };
    const auto variable = [&](int where) {
      return make_symbol(differential_variable(where), real_);
    };
    for (const Reading& body : memoized(sum_, marks.end))
      if (token(body.end) == Token::differential) put(body.end + 1, body.tree, variable(body.end));
    if (token(marks.end) == Token::differential)
      put(marks.end + 1, make_integer("1"), variable(marks.end));
    for (const Reading& body : memoized(sum_, marks.end))
      put(body.end, body.tree, make_symbol("x", real_));
  }
  return found;
}

Grammar::Readings Grammar::sum_or_product(int at) {
  const char* name = token(at) == Token::sum ? "sum" : "product";
  Readings found;
  const auto body = [&](int from, const Tree& equation, const Tree& last) {
    for (const Reading& term : memoized(product_, from))
      add(found, term.end,
          make(Kind::subscripted, {term.tree, equation->parts[0], equation->parts[1], last}, name));
  };
  const auto equation = [&](int from) -> Readings {
    Readings all;
    if (token(from) != Token::underscore || token(from + 1) != Token::left_brace) return all;
    for (const Reading& reading : enclosed(from + 2, relation_, Token::right_brace))
      if (reading.tree->kind == Kind::relation && reading.tree->text == "=") all.push_back(reading);
    return all;
  };
  for (const Reading& below : equation(at + 1))
    for (const Reading& above : superscript(below.end)) body(above.end, below.tree, above.tree);
  for (const Reading& above : superscript(at + 1))
    for (const Reading& below : equation(above.end)) body(below.end, below.tree, above.tree);
  return found;
}

Grammar::Readings Grammar::limit(int at) {
  if (token(at + 1) != Token::underscore || token(at + 2) != Token::left_brace) return {};
  if (plain_symbol(at + 3).empty() || token(at + 4) != Token::approaches) return {};
  Readings found;
  const Tree variable = symbol_tree(symbol_name(at + 3));
  for (const Reading& target : memoized(sum_, at + 5)) {
    int end = target.end;
    Tree side = make_integer("1");
    if (token(end) == Token::caret && token(end + 1) == Token::left_brace) {
      if (token(end + 2) == Token::minus) side = make_integer("1", true);
      if (token(end + 3) != Token::right_brace) continue;
      end += 4;
    }
    if (token(end) != Token::right_brace) continue;
    for (const Reading& body : memoized(product_, end + 1))
      add(found, body.end,
          make(Kind::subscripted, {body.tree, variable, target.tree, side}, "limit"));
  }
  return found;
}

Grammar::Readings Grammar::root(int at) {
  Readings found, degrees;
  if (token(at + 1) == Token::left_bracket) degrees = enclosed(at + 2, sum_, Token::right_bracket);
  if (token(at + 1) == Token::left_brace) degrees.push_back({at + 1, make_integer("2")});
  for (const Reading& degree : degrees) {
    if (token(degree.end) != Token::left_brace) continue;
    for (const Reading& base : enclosed(degree.end + 1, sum_, Token::right_brace))
      add(found, base.end, make(Kind::power, {base.tree, divide(make_integer("1"), degree.tree)}));
  }
  return found;
}

}  // namespace deltasane::answers
