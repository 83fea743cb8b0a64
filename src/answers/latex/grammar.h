// The grammar of answers in LaTeX.
//
// A memoizing recursive-descent parser with ordered alternatives. A rule applied at a token returns
// its readings: each end that it can reach with the tree it builds, the preferred one first. The
// first reading of the whole text wins, as in a parser that backtracks over ordered alternatives.
// Readings are memoized per rule and token and contain each end once, so the work is polynomial; it
// is also bounded by a budget.
#pragma once

#include <deque>
#include <functional>
#include <string>
#include <vector>

#include "answers/latex/token.h"
#include "answers/tree.h"

namespace deltasane::answers {

class Grammar {
 public:
  Grammar(const std::vector<Lexeme>& lexemes, bool real_symbols, int depth);

  Tree read(std::string_view source);  // null: not in the grammar, or over budget

 private:
  struct Reading {
    int end;
    Tree tree;
  };
  using Readings = std::vector<Reading>;
  using Rule = Readings (Grammar::*)(int at);
  enum Functions { allowed, forbidden };  // whether f(x), \sin x ... may start here

  enum Memoized {  // rules whose readings are memoized
    sum_,
    product_,
    plain_product_,
    unary_,
    plain_unary_,
    factors_,
    plain_factors_,
    plain_tail_,
    postfix_,
    plain_postfix_,
    power_,
    plain_power_,
    primary_,
    plain_primary_,
    atom_,
    function_,
    relation_,
    set_atom_,
    semicolons_,
    element_,
    element_without_relation_,
    difference_,
    union_,
    intersection_,
    set_group_,
    memoized_rules
  };

  // Machinery: grammar.cpp
  const Readings& memoized(Memoized rule, int at);
  Readings compute(Memoized rule, int at);
  bool spend();
  Token token(int at) const {
    return size_t(at) < lexemes_.size() ? lexemes_[size_t(at)].token : Token::end;
  }
  std::string_view text(int at) const { return lexemes_[size_t(at)].text; }
  std::string text(int from, int to) const;  // tokens from..to-1, concatenated
  static void add(Readings& readings, int end, Tree tree);
  static void add_all(Readings& readings, const Readings& more);
  // operand (operator operand)*, grouped from the left, longest first
  using Join = std::function<Tree(const Tree& left, Token op, const Tree& right)>;
  Readings chain(int at, Memoized operand, std::initializer_list<Token> operators,
                 const Join& join);
  // the transitive closure of `more` over the readings; longest first
  using More = std::function<Readings(const Reading& so_far)>;
  Readings extended(const Readings& readings, const More& more);
  // opening rule closing
  Readings enclosed(int at, Memoized rule, Token closing);
  Tree parse_again(const std::string& source) const;

  // grammar_expressions.cpp
  Readings unary(int at, Functions functions);
  Readings factors(int at, Memoized first, Memoized rest);
  Readings postfix(int at, Functions functions);
  Readings power(int at, Functions functions);
  Readings primary(int at, Functions functions);
  Readings evaluated_at(int at, const Tree& value);

  // grammar_atoms.cpp
  Readings atom(int at);
  Readings plain_symbol(int at);  // without sub- or superscript
  Readings symbol(int at);        // with them
  Readings subscript(int at);
  Readings superscript(int at);
  Readings arguments(int at);  // a, b, c
  std::string subscript_text(int at, int end) const;
  std::string symbol_name(int at) const;
  Tree symbol_tree(std::string name) const;
  Tree number_tree(std::string_view digits) const;
  std::string differential_variable(int at) const;  // the x of dx

  // grammar_functions.cpp
  Readings function(int at);
  Readings named_function(int at);
  Readings function_of_many(int at);
  Readings unknown_function(int at);
  Readings integral(int at);
  Readings sum_or_product(int at);
  Readings limit(int at);
  Readings root(int at);
  Readings fraction(int at);
  Readings binomial(int at);
  Readings matrix(int at);
  struct Scripts {
    int end;
    Tree below, above;
  };
  std::vector<Scripts> scripts(int at);
  Tree apply_function(std::string_view name, const Tree& argument, const Scripts& scripts) const;

  // grammar_sets.cpp
  Readings relation(int at);
  Readings element(int at, bool relations);
  Readings commas(int at, Memoized element);
  Readings semicolons(int at, Memoized element);
  Readings set_atom(int at);
  Readings interval(int at);
  Readings set_group(int at);
  Readings set_relation(int at);
  Readings symbol_list(int at);
  Readings assigned_elements(int at);

  static Tree set_or_tuple(const Node& groups);  // of the elements between semicolons

  const std::vector<Lexeme>& lexemes_;
  bool real_;
  int nesting_;
  bool has_plus_minus_ = false;
  int budget_;
  std::vector<int> index_;
  std::deque<Readings> store_;
};

// Whether symbols in this text stand for complex numbers.
bool looks_complex(std::string_view latex);

// 1,234,567.8: the whole text is one number.
bool is_number_with_commas(std::string_view text);
Tree number_with_commas(std::string_view text);

Tree parse_within(std::string_view latex, int depth);

}  // namespace deltasane::answers
