#include "answers/latex/grammar.h"

#include <algorithm>

#include "answers/latex/latex.h"
#include "answers/scan.h"

namespace deltasane::answers {

namespace {

constexpr size_t max_tokens = 600;
constexpr int max_nesting = 120;
constexpr int max_work = 30000;

}  // namespace

Grammar::Grammar(const std::vector<Lexeme>& lexemes, bool real_symbols, int depth)
    : lexemes_(lexemes),
      real_(real_symbols),
      nesting_(depth),
      budget_(max_work),
      index_(size_t(memoized_rules) * lexemes.size(), -1) {
  for (const Lexeme& lexeme : lexemes)
    if (lexeme.token == Token::plus_minus) has_plus_minus_ = true;
}

bool Grammar::spend() { return --budget_ > 0; }

void Grammar::add(Readings& readings, int end, Tree tree) {
  for (const Reading& reading : readings)
    if (reading.end == end) return;
  readings.push_back({end, std::move(tree)});
}

void Grammar::add_all(Readings& readings, const Readings& more) {
  for (const Reading& reading : more) add(readings, reading.end, reading.tree);
}

const Grammar::Readings& Grammar::memoized(Memoized rule, int at) {
  static const Readings none;
  if (size_t(at) >= lexemes_.size()) return none;
  const int index = index_[size_t(at) * memoized_rules + rule];
  if (index >= 0) return store_[size_t(index)];
  if (!spend() || nesting_ > max_nesting) return none;
  const bool deeper = rule == sum_ || rule == unary_ || rule == plain_unary_;
  nesting_ += deeper;
  Readings readings = compute(rule, at);
  nesting_ -= deeper;
  index_[size_t(at) * memoized_rules + rule] = int(store_.size());
  return store_.emplace_back(std::move(readings));
}

Grammar::Readings Grammar::compute(Memoized rule, int at) {
  const auto times = [](const Tree& left, Token op, const Tree& right) {
    if (op == Token::times) return multiply_flat(left, right);
    if (op == Token::modulo)
      return right->is_matrix ? invalid_tree() : make(Kind::apply, {left, right}, "mod");
    return divide(left, right);
  };
  switch (rule) {
    case sum_:
      return chain(at, product_, {Token::plus, Token::minus},
                   [](const Tree& left, Token op, const Tree& right) {
                     return add_flat(left, op == Token::plus ? right : negate(right));
                   });
    case product_:
      return chain(at, unary_, {Token::times, Token::over, Token::colon, Token::modulo}, times);
    case plain_product_:
      return chain(at, plain_unary_, {Token::times, Token::over, Token::colon, Token::modulo},
                   times);
    case unary_:
      return unary(at, allowed);
    case plain_unary_:
      return unary(at, forbidden);
    case factors_:
      return factors(at, postfix_, factors_);
    case plain_factors_:
      return factors(at, postfix_, plain_tail_);
    case plain_tail_:
      return factors(at, plain_postfix_, plain_tail_);
    case postfix_:
      return postfix(at, allowed);
    case plain_postfix_:
      return postfix(at, forbidden);
    case power_:
      return power(at, allowed);
    case plain_power_:
      return power(at, forbidden);
    case primary_:
      return primary(at, allowed);
    case plain_primary_:
      return primary(at, forbidden);
    case atom_:
      return atom(at);
    case function_:
      return function(at);
    case relation_:
      return relation(at);
    case set_atom_:
      return set_atom(at);
    case semicolons_:
      return semicolons(at, element_);
    case element_:
      return element(at, true);
    case element_without_relation_:
      return element(at, false);
    default:
      break;
  }
  const auto as_set = [](const Tree& tree) {
    return tree->kind == Kind::tuple ? make_set(tree->parts) : tree;
  };
  if (rule == difference_)
    return chain(at, union_, {Token::set_minus}, [](const Tree& left, Token, const Tree& right) {
      return make(Kind::complement, {left, right});
    });
  if (rule == union_)
    return chain(at, intersection_, {Token::cup}, [&](const Tree& left, Token, const Tree& right) {
      return make(Kind::unite, {as_set(left), as_set(right)});
    });
  if (rule == intersection_)
    return chain(at, set_group_, {Token::cap}, [&](const Tree& left, Token, const Tree& right) {
      return make(Kind::intersect, {as_set(left), as_set(right)});
    });
  return set_group(at);
}

Grammar::Readings Grammar::extended(const Readings& readings, const More& more) {
  struct Step {
    Reading reading;
    Readings next;
    size_t tried = 0;
  };
  Readings found;
  std::vector<int> seen;
  const auto first_visit = [&](int end) {
    if (std::find(seen.begin(), seen.end(), end) != seen.end()) return false;
    seen.push_back(end);
    return true;
  };
  for (const Reading& first : readings) {
    if (!first_visit(first.end)) continue;
    std::vector<Step> steps = {{first, more(first)}};
    while (!steps.empty() && spend()) {
      Step& step = steps.back();
      if (step.tried < step.next.size()) {
        Reading next = step.next[step.tried++];
        if (!first_visit(next.end)) continue;
        Readings further = more(next);
        steps.push_back({std::move(next), std::move(further)});
        continue;
      }
      found.push_back(std::move(step.reading));
      steps.pop_back();
    }
  }
  return found;
}

Grammar::Readings Grammar::chain(int at, Memoized operand, std::initializer_list<Token> operators,
                                 const Join& join) {
  return extended(memoized(operand, at), [&](const Reading& left) {
    Readings more;
    const Token op = token(left.end);
    if (std::find(operators.begin(), operators.end(), op) == operators.end()) return more;
    for (const Reading& right : memoized(operand, left.end + 1))
      more.push_back({right.end, join(left.tree, op, right.tree)});
    return more;
  });
}

Grammar::Readings Grammar::enclosed(int at, Memoized rule, Token closing) {
  Readings found;
  for (const Reading& inner : memoized(rule, at))
    if (token(inner.end) == closing) add(found, inner.end + 1, inner.tree);
  return found;
}

std::string Grammar::text(int from, int to) const {
  std::string joined;
  for (int i = from; i < to; ++i) joined += text(i);
  return joined;
}

Tree Grammar::parse_again(const std::string& source) const {
  const Tree tree = parse_within(source, nesting_ + 1);
  return tree ? tree : invalid_tree();
}

Tree Grammar::read(std::string_view source) {
  const auto whole = [&](const Readings& readings) -> Tree {
    for (const Reading& reading : readings)
      if (token(reading.end) == Token::end) return reading.tree;
    return nullptr;
  };
  Tree tree = whole(assigned_elements(0));
  if (!tree && (tree = whole(memoized(semicolons_, 0))))
    tree = is_number_with_commas(source) ? number_with_commas(source) : set_or_tuple(*tree);
  if (!tree) tree = whole(set_relation(0));
  if (!tree || budget_ <= 0 || tree->kind == Kind::invalid) return nullptr;
  return flatten_products(tree);
}

Tree parse_within(std::string_view latex, int depth) {
  if (depth > max_nesting) return nullptr;
  const auto lexemes = tokenize(latex, max_tokens);
  if (!lexemes) return nullptr;
  return Grammar(*lexemes, !looks_complex(latex), depth).read(latex);
}

}  // namespace deltasane::answers
