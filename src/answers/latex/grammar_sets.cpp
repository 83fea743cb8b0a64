#include <algorithm>

#include "answers/latex/grammar.h"
#include "answers/scan.h"

namespace deltasane::answers {

namespace {

std::string_view relation_sign(Token token) {
  switch (token) {
    case Token::equals:
    case Token::identical_to:
      return "=";
    case Token::less:
      return "<";
    case Token::less_equal:
      return "<=";
    case Token::greater:
      return ">";
    case Token::greater_equal:
      return ">=";
    case Token::unequal:
      return "!=";
    default:
      return "";
  }
}

// a < b < c becomes "a < b and b < c".
Tree relate(const Tree& left, Token op, const Tree& right) {
  if (op == Token::element_of) return invalid_tree();
  if (op == Token::approximately) return only_symbols(*left) ? right : left;
  const std::string_view sign = relation_sign(op);
  if (left->kind == Kind::relation)
    return make(Kind::chain, {left, make_relation(sign, left->parts[1], right)});
  if (left->kind == Kind::chain) {
    std::vector<Tree> parts = left->parts;
    parts.push_back(make_relation(sign, parts.back()->parts[1], right));
    return make(Kind::chain, std::move(parts));
  }
  return make_relation(sign, left, right);
}

// Lists under construction are tuples with these texts.
constexpr const char* comma_list = ",";
constexpr const char* semicolon_list = ";";
constexpr const char* pair_of_signs = "+-";

void append_element(std::vector<Tree>& parts, const Tree& element) {
  if (element->kind == Kind::tuple && element->text == pair_of_signs)
    parts.insert(parts.end(), element->parts.begin(), element->parts.end());
  else
    parts.push_back(element);
}

std::vector<Tree> flattened(const Node& groups) {
  std::vector<Tree> all;
  for (const Tree& group : groups.parts)
    all.insert(all.end(), group->parts.begin(), group->parts.end());
  return all;
}

}  // namespace

Tree Grammar::set_or_tuple(const Node& groups) {
  if (groups.kind != Kind::tuple) return invalid_tree();
  const auto single = [](const Tree& group) { return group->parts.size() == 1; };
  if (groups.parts.size() == 1)
    return single(groups.parts[0]) ? groups.parts[0]->parts[0] : make_set(groups.parts[0]->parts);
  if (std::all_of(groups.parts.begin(), groups.parts.end(), single))
    return make_set(flattened(groups));
  std::vector<Tree> tuples;
  for (const Tree& group : groups.parts) tuples.push_back(make(Kind::tuple, group->parts));
  return make_set(std::move(tuples));
}

Grammar::Readings Grammar::relation(int at) {
  return chain(
      at, sum_,
      {Token::element_of, Token::equals, Token::identical_to, Token::approximately, Token::less,
       Token::less_equal, Token::greater, Token::greater_equal, Token::unequal},
      relate);
}

Grammar::Readings Grammar::element(int at, bool relations) {
  Readings found;
  if (has_plus_minus_) {
    for (const Reading& left : memoized(sum_, at)) {
      if (token(left.end) != Token::plus_minus) continue;
      for (const Reading& right : memoized(sum_, left.end + 1))
        add(found, right.end,
            make(Kind::tuple,
                 {make(Kind::add, {left.tree, right.tree}),
                  make(Kind::add, {left.tree, negate(right.tree)})},
                 pair_of_signs));
    }
    if (token(at) == Token::plus_minus)
      for (const Reading& value : memoized(sum_, at + 1))
        add(found, value.end, make(Kind::tuple, {negate(value.tree), value.tree}, pair_of_signs));
  }
  add_all(found, memoized(set_atom_, at));
  add_all(found, memoized(relations ? relation_ : sum_, at));
  return found;
}

Grammar::Readings Grammar::commas(int at, Memoized element) {
  Readings lists =
      chain(at, element, {Token::comma}, [](const Tree& left, Token, const Tree& right) {
        std::vector<Tree> parts;
        if (left->kind == Kind::tuple && left->text == comma_list)
          parts = left->parts;
        else
          append_element(parts, left);
        append_element(parts, right);
        return make(Kind::tuple, std::move(parts), comma_list);
      });
  for (Reading& list : lists) {
    if (list.tree->kind == Kind::tuple && list.tree->text == comma_list) continue;
    std::vector<Tree> parts;
    append_element(parts, list.tree);
    list.tree = make(Kind::tuple, std::move(parts), comma_list);
  }
  return lists;
}

Grammar::Readings Grammar::semicolons(int at, Memoized element) {
  Readings start;
  for (const Reading& first : commas(at, element))
    start.push_back({first.end, make(Kind::tuple, {first.tree}, semicolon_list)});
  return extended(start, [&](const Reading& so_far) {
    Readings more;
    if (token(so_far.end) != Token::semicolon) return more;
    for (const Reading& next : commas(so_far.end + 1, element)) {
      std::vector<Tree> parts = so_far.tree->parts;
      parts.push_back(next.tree);
      more.push_back({next.end, make(Kind::tuple, std::move(parts), semicolon_list)});
    }
    return more;
  });
}

Grammar::Readings Grammar::interval(int at) {
  Readings found;
  const Token open = token(at);
  const bool closed_left = open == Token::left_bracket || open == Token::left_bracket_word;
  const bool open_left =
      open == Token::left_paren || open == Token::left_paren_visual || open == Token::left_group;
  if (!closed_left && !open_left) return found;
  for (const Reading& low : memoized(sum_, at + 1)) {
    if (token(low.end) != Token::comma) continue;
    for (const Reading& high : memoized(sum_, low.end + 1)) {
      const Token close = token(high.end);
      const bool closed_right = close == Token::right_bracket || close == Token::right_bracket_word;
      const bool open_right = close == Token::right_paren || close == Token::right_paren_visual ||
                              close == Token::right_group;
      if (!closed_right && !open_right) continue;
      Node node;
      node.kind = Kind::interval;
      node.left_open = open_left;
      node.right_open = open_right;
      node.parts = {low.tree, high.tree};
      add(found, high.end + 1, make(std::move(node)));
    }
  }
  return found;
}

Grammar::Readings Grammar::set_atom(int at) {
  Readings found = interval(at);
  const auto named = [&](const char* name) { add(found, at + 1, make(Kind::named_set, {}, name)); };
  const auto enclosed_list = [&](int from, Token closing, auto convert) {
    for (const Reading& list : enclosed(from, semicolons_, closing))
      add(found, list.end, convert(*list.tree));
  };
  const auto as_tuple = [](const Node& groups) {
    if (groups.kind != Kind::tuple) return invalid_tree();
    std::vector<Tree> parts = flattened(groups);
    return parts.size() == 1 ? parts[0] : make(Kind::tuple, std::move(parts));
  };
  const auto as_set = [](const Node& groups) {
    return groups.kind == Kind::tuple ? make_set(flattened(groups)) : invalid_tree();
  };
  switch (token(at)) {
    case Token::naturals:
      named("N");
      break;
    case Token::integers:
      named("Z");
      break;
    case Token::rationals:
      named("Q");
      break;
    case Token::reals:
      named("R");
      break;
    case Token::complexes:
      named("C");
      break;
    case Token::primes:
      add(found, at + 1, invalid_tree());
      break;
    case Token::empty_set:
      named("");
      break;
    case Token::left_paren:
      enclosed_list(at + 1, Token::right_paren, as_tuple);
      break;
    case Token::left_paren_visual:
      enclosed_list(at + 1, Token::right_paren_visual, as_tuple);
      break;
    case Token::left_bracket:
      enclosed_list(at + 1, Token::right_bracket, as_tuple);
      break;
    case Token::left_brace:
      if (token(at + 1) == Token::right_brace)
        add(found, at + 2, make(Kind::named_set, {}));
      else
        enclosed_list(at + 1, Token::right_brace, as_set);
      break;
    case Token::left_brace_visual:
      enclosed_list(at + 1, Token::right_brace_visual, as_set);
      break;
    case Token::boxed:
      if (token(at + 1) == Token::left_brace)
        enclosed_list(at + 2, Token::right_brace, set_or_tuple);
      break;
    default:
      break;
  }
  return found;
}

Grammar::Readings Grammar::set_group(int at) {
  Readings found;
  if (token(at) == Token::left_paren) found = enclosed(at + 1, difference_, Token::right_paren);
  add_all(found, memoized(set_atom_, at));
  return found;
}

// x, or (x, y)
Grammar::Readings Grammar::symbol_list(int at) {
  if (token(at) != Token::left_paren) return symbol(at);
  Readings start;
  for (const Reading& first : symbol(at + 1))
    start.push_back({first.end, make(Kind::tuple, {first.tree})});
  const Readings lists = extended(start, [&](const Reading& so_far) {
    Readings more;
    if (token(so_far.end) != Token::comma) return more;
    for (const Reading& next : symbol(so_far.end + 1)) {
      std::vector<Tree> parts = so_far.tree->parts;
      parts.push_back(next.tree);
      more.push_back({next.end, make(Kind::tuple, std::move(parts))});
    }
    return more;
  });
  Readings found;
  for (const Reading& list : lists) {
    if (token(list.end) != Token::right_paren) continue;
    const bool one = list.tree->kind == Kind::tuple && list.tree->parts.size() == 1;
    add(found, list.end + 1, one ? list.tree->parts[0] : list.tree);
  }
  return found;
}

// x = 1, 2 and x \in \{1, 2\} without further relations
Grammar::Readings Grammar::assigned_elements(int at) {
  Readings found;
  for (const Reading& left : symbol_list(at)) {
    const Token sign = token(left.end);
    if (sign != Token::element_of && sign != Token::equals) continue;
    for (const Reading& right : semicolons(left.end + 1, element_without_relation_))
      add(found, right.end, make_relation("=", left.tree, set_or_tuple(*right.tree)));
  }
  return found;
}

Grammar::Readings Grammar::set_relation(int at) {
  Readings found;
  for (const Reading& left : symbol_list(at)) {
    const Token sign = token(left.end);
    if (sign != Token::element_of && sign != Token::not_element_of && sign != Token::equals)
      continue;
    if (++nesting_ > 120) return {};
    for (const Reading& right : set_relation(left.end + 1)) {
      Tree tree = make_relation("=", left.tree, right.tree);
      if (sign == Token::not_element_of) tree = make(Kind::subscripted, {tree}, "not");
      add(found, right.end, tree);
    }
    --nesting_;
  }
  for (const Reading& left : memoized(difference_, at)) {
    if (token(left.end) == Token::subset || token(left.end) == Token::superset)
      for (const Reading& right : memoized(difference_, left.end + 1))
        add(found, right.end, make(Kind::subscripted, {left.tree, right.tree}, "subset"));
    add(found, left.end, left.tree);
  }
  return found;
}

bool is_number_with_commas(std::string_view shown) {
  std::string_view rest = trimmed(shown);
  if (rest.starts_with('-')) rest.remove_prefix(1);
  size_t at = 0;
  while (at < rest.size() && is_digit(rest[at])) ++at;
  if (at == 0 || at > 3) return false;
  const size_t first = at;
  while (at + 3 < rest.size() && rest[at] == ',' && is_digit(rest[at + 1]) &&
         is_digit(rest[at + 2]) && is_digit(rest[at + 3]))
    at += 4;
  if (at == first) return false;
  if (at == rest.size()) return true;
  if (rest[at] != '.' || at + 1 == rest.size()) return false;
  return rest.find_first_not_of("0123456789", at + 1) == npos;
}

Tree number_with_commas(std::string_view shown) {
  std::string_view rest = trimmed(shown);
  const bool negative = rest.starts_with('-');
  if (negative) rest.remove_prefix(1);
  std::string digits(rest);
  if (digits.starts_with('0')) std::replace(digits.begin(), digits.end(), ',', '.');
  std::erase(digits, ',');
  const bool whole = digits.find('.') == npos;
  return whole ? make_integer(digits, negative) : make_decimal(digits, negative);
}

}  // namespace deltasane::answers
