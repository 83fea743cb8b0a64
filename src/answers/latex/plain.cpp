// Numeric expressions in plain text: + - * / ** ^ and parentheses.
#include "answers/latex/latex.h"
#include "answers/scan.h"

namespace deltasane::answers {

namespace {

class PlainParser {
 public:
  explicit PlainParser(std::string_view text) : text_(text) {}

  Tree whole() {
    Tree tree = sum();
    skip();
    return tree && at_ == text_.size() ? tree : nullptr;
  }

 private:
  void skip() { at_ = skip_spaces(text_, at_); }

  bool take(std::string_view sign) {
    skip();
    if (!starts(text_, at_, sign)) return false;
    at_ += sign.size();
    return true;
  }

  bool next_is_power() {
    skip();
    return starts(text_, at_, "**") || starts(text_, at_, "^");
  }

  Tree sum() {
    Tree left = product();
    while (left) {
      const bool plus = take("+");
      if (!plus && !take("-")) break;
      const Tree right = product();
      if (!right) return nullptr;
      left = add_flat(left, plus ? right : negate(right));
    }
    return left;
  }

  Tree product() {
    Tree left = unary();
    while (left && !next_is_power()) {
      const bool times = take("*");
      if (!times && !take("/")) break;
      const Tree right = unary();
      if (!right) return nullptr;
      left = make(Kind::multiply,
                  {left, times ? right : make(Kind::power, {right, make_integer("1", true)})});
    }
    return left;
  }

  Tree unary() {
    if (++depth_ > 100) return nullptr;
    Tree tree;
    if (take("-")) {
      tree = unary();
      if (tree) tree = negate(tree);
    } else if (take("+")) {
      tree = unary();
    } else {
      tree = power();
    }
    --depth_;
    return tree;
  }

  Tree power() {
    const Tree base = primary();
    if (!base || !next_is_power()) return base;
    if (!take("**")) take("^");
    const Tree exponent = unary();
    return exponent ? make(Kind::power, {base, exponent}) : nullptr;
  }

  Tree primary() {
    if (take("(")) {
      const Tree inner = sum();
      return inner && take(")") ? inner : nullptr;
    }
    const size_t first = at_;
    while (at_ < text_.size() && is_digit(text_[at_])) ++at_;
    const bool whole = at_ >= text_.size() || text_[at_] != '.';
    if (!whole)
      for (++at_; at_ < text_.size() && is_digit(text_[at_]);) ++at_;
    const std::string digits(text_.substr(first, at_ - first));
    if (digits.empty() || digits == ".") return nullptr;
    // Leading zeros of an integer are a syntax error, as in Python.
    if (whole && digits[0] == '0' && digits.find_first_not_of('0') != npos) return nullptr;
    return whole ? make_integer(digits) : make_decimal(digits);
  }

  std::string_view text_;
  size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace

Tree parse_plain(std::string_view text) {
  constexpr size_t longest = 2000;
  if (text.size() > longest) return nullptr;
  const Tree tree = PlainParser(text).whole();
  return tree && tree->kind != Kind::invalid ? tree : nullptr;
}

}  // namespace deltasane::answers
