// The expression tree that a written answer becomes.
//
// Nothing is simplified here: "2+3" stays a sum, because the rules of comparison ask how an answer
// was written. Numbers keep their digits. Nodes are shared and never change.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "answers/answers.h"

namespace deltasane::answers {

enum class Kind : uint8_t {
  integer,   // text: digits, negative
  decimal,   // text: digits with a point, perhaps an exponent; negative
  fraction,  // parts: two integers
  mixed,     // parts: an integer and a positive rational; their sum away from zero
  infinity,  // negative
  pi,
  euler,
  imaginary,
  symbol,  // text: name; real
  add,
  multiply,
  power,
  apply,        // text: name of a known function
  call,         // text: name of an unknown function
  subscripted,  // operators compared as written; text: integral, limit, ...
  finite_set,
  tuple,
  interval,  // parts: two ends; left_open, right_open
  unite,
  intersect,
  complement,
  named_set,  // text: N Z Q R C P, or "" for the empty set
  relation,   // text: = != < <= > >=; parts: two sides
  chain,      // parts: relations that all hold, in written order
  matrix,     // rows; parts: elements row by row
  nothing,    // parsed, but stands for no value
  invalid,    // parsed, but meaningless
};

struct Node {
  Kind kind = Kind::invalid;
  bool negative = false;
  bool real = true;
  bool left_open = false, right_open = false;
  bool is_matrix = false;  // this node or one of its operands is a matrix
  bool deferred = false;   // multiply: nested products are not flattened yet
  int rows = 0;
  int size = 1;   // nodes in this tree, counted with repetition
  int depth = 1;  // height of this tree
  std::string text;
  std::vector<Tree> parts;
};

// Fills in size, depth and is_matrix; an invalid part makes the tree invalid.
Tree make(Node node);
Tree make(Kind kind, std::vector<Tree> parts, std::string text = {});
Tree make_integer(std::string digits, bool negative = false);
Tree make_decimal(std::string digits, bool negative = false);
Tree make_symbol(std::string name, bool real);
Tree make_relation(std::string_view op, Tree left, Tree right);
Tree make_percent(Tree value);
Tree make_set(std::vector<Tree> elements);             // without duplicates
Tree make_rational(Tree numerator, Tree denominator);  // of two integers: a fraction
Tree invalid_tree();

Tree negate(const Tree& tree);                // numbers change sign, the rest gets a factor -1
Tree add_flat(const Tree& a, const Tree& b);  // one sum, not a sum of sums
Tree multiply_flat(const Tree& a, const Tree& b);
Tree divide(const Tree& a, const Tree& b);
Tree multiply_deferred(const Tree& a, const Tree& b);  // flattened later, in linear time
Tree flatten_products(const Tree& tree);               // flattens all deferred products

bool is_number(const Node& node);  // integer, decimal, fraction, mixed, infinity
bool is_integer(const Node& node);
bool is_positive_rational(const Node& node);
bool is_set(const Node& node);  // finite_set ... named_set, but not tuple
bool is_percent_of(const Node& node, bool (*atom)(const Node&));
bool only_symbols(const Node& node);           // a symbol, or built from symbols alone
bool identical(const Node& a, const Node& b);  // as written; sets in any order

std::string describe(const Node& node);

}  // namespace deltasane::answers
