#include "answers/tree.h"

#include <algorithm>

namespace deltasane::answers {

namespace {

constexpr int largest_size = 1 << 20;

bool is_zero(const Node& node) { return node.kind == Kind::integer && node.text == "0"; }

}  // namespace

Tree make(Node node) {
  for (const Tree& part : node.parts) {
    if (!part || part->kind == Kind::invalid) return invalid_tree();
    node.size = std::min(node.size + part->size, largest_size);
    node.depth = std::max(node.depth, part->depth + 1);
    if (part->is_matrix &&
        (node.kind == Kind::add || node.kind == Kind::multiply || node.kind == Kind::power))
      node.is_matrix = true;
  }
  if (node.kind == Kind::matrix) node.is_matrix = true;
  return std::make_shared<const Node>(std::move(node));
}

Tree make(Kind kind, std::vector<Tree> parts, std::string text) {
  Node node;
  node.kind = kind;
  node.parts = std::move(parts);
  node.text = std::move(text);
  return make(std::move(node));
}

Tree invalid_tree() {
  static const Tree tree = std::make_shared<const Node>();
  return tree;
}

Tree make_integer(std::string digits, bool negative) {
  // The reference reads integers through a parser that rejects more digits than this.
  constexpr size_t max_digits = 4300;
  digits.erase(0, std::min(digits.find_first_not_of('0'), digits.size() - 1));
  if (digits.size() > max_digits) return invalid_tree();
  Node node;
  node.kind = Kind::integer;
  node.negative = negative && digits != "0";
  node.text = std::move(digits);
  return make(std::move(node));
}

Tree make_decimal(std::string digits, bool negative) {
  constexpr size_t max_digits = 4300;
  if (digits.size() > max_digits) return invalid_tree();
  Node node;
  node.kind = Kind::decimal;
  node.negative = negative;
  node.text = std::move(digits);
  return make(std::move(node));
}

Tree make_symbol(std::string name, bool real) {
  if (name == "pi") return make(Kind::pi, {});
  Node node;
  node.kind = Kind::symbol;
  node.text = std::move(name);
  node.real = real;
  return make(std::move(node));
}

Tree make_relation(std::string_view op, Tree left, Tree right) {
  return make(Kind::relation, {std::move(left), std::move(right)}, std::string(op));
}

Tree make_rational(Tree numerator, Tree denominator) {
  return make(Kind::fraction, {std::move(numerator), std::move(denominator)});
}

Tree make_percent(Tree value) {
  static const Tree hundredth = make_rational(make_integer("1"), make_integer("100"));
  return make(Kind::multiply, {std::move(value), hundredth});
}

Tree make_set(std::vector<Tree> elements) {
  if (elements.empty()) return make(Kind::named_set, {});
  std::vector<Tree> distinct;
  for (Tree& element : elements) {
    const auto same = [&](const Tree& other) {
      return other && element && identical(*element, *other);
    };
    if (distinct.size() > 64 || std::none_of(distinct.begin(), distinct.end(), same))
      distinct.push_back(std::move(element));
  }
  return make(Kind::finite_set, std::move(distinct));
}

Tree negate(const Tree& tree) {
  if (is_number(*tree)) {
    if (is_zero(*tree)) return tree;
    Node node = *tree;
    node.negative = !node.negative;
    return make(std::move(node));
  }
  return multiply_flat(make_integer("1", true), tree);
}

namespace {

Tree flatten(Kind kind, const Tree& a, const Tree& b) {
  std::vector<Tree> parts;
  for (const Tree& side : {a, b}) {
    if (side->kind == kind)
      parts.insert(parts.end(), side->parts.begin(), side->parts.end());
    else
      parts.push_back(side);
  }
  return make(kind, std::move(parts));
}

}  // namespace

namespace {

bool different_shapes(const Node& a, const Node& b) {
  return a.kind == Kind::matrix && b.kind == Kind::matrix &&
         (a.rows != b.rows || a.parts.size() != b.parts.size());
}

}  // namespace

Tree add_flat(const Tree& a, const Tree& b) {
  if (a->is_matrix != b->is_matrix || different_shapes(*a, *b)) return invalid_tree();
  return flatten(Kind::add, a, b);
}
Tree multiply_flat(const Tree& a, const Tree& b) {
  return a->deferred || b->deferred ? multiply_deferred(a, b) : flatten(Kind::multiply, a, b);
}

Tree multiply_deferred(const Tree& a, const Tree& b) {
  Node node;
  node.kind = Kind::multiply;
  node.deferred = true;
  node.parts = {a, b};
  return make(std::move(node));
}

Tree flatten_products(const Tree& tree) {
  if (tree->parts.empty()) return tree;
  Node node = *tree;
  node.size = node.depth = 1;
  node.deferred = false;
  node.parts.clear();
  // A chain of deferred products nests in its last factor.
  const Node* here = tree.get();
  for (; here->deferred && here->parts[1]->deferred; here = here->parts[1].get()) {
    const Tree part = flatten_products(here->parts[0]);
    if (part->kind == Kind::multiply)
      node.parts.insert(node.parts.end(), part->parts.begin(), part->parts.end());
    else
      node.parts.push_back(part);
  }
  for (const Tree& child : here->parts) {
    const Tree part = flatten_products(child);
    if (here->deferred && part->kind == Kind::multiply)
      node.parts.insert(node.parts.end(), part->parts.begin(), part->parts.end());
    else
      node.parts.push_back(part);
  }
  return make(std::move(node));
}

Tree divide(const Tree& a, const Tree& b) {
  if (is_integer(*a) && is_integer(*b)) return make_rational(a, b);
  if (b->kind == Kind::matrix && size_t(b->rows * b->rows) != b->parts.size())
    return invalid_tree();
  return make(Kind::multiply, {a, make(Kind::power, {b, make_integer("1", true)})});
}

bool is_integer(const Node& node) {
  if (node.kind == Kind::integer) return true;
  return node.kind == Kind::mixed && is_integer(*node.parts[1]);
}

bool is_number(const Node& node) {
  switch (node.kind) {
    case Kind::integer:
    case Kind::decimal:
    case Kind::mixed:
    case Kind::infinity:
      return true;
    case Kind::fraction:
      return !is_zero(*node.parts[1]);
    default:
      return false;
  }
}

bool is_positive_rational(const Node& node) {
  switch (node.kind) {
    case Kind::integer:
      return !node.negative && !is_zero(node);
    case Kind::mixed:
      return node.parts[0]->negative == node.negative;
    case Kind::fraction:
      return !is_zero(*node.parts[0]) && !is_zero(*node.parts[1]) &&
             node.negative == (node.parts[0]->negative != node.parts[1]->negative);
    default:
      return false;
  }
}

bool is_set(const Node& node) {
  return node.kind == Kind::finite_set || node.kind == Kind::interval || node.kind == Kind::unite ||
         node.kind == Kind::intersect || node.kind == Kind::complement ||
         node.kind == Kind::named_set;
}

bool is_percent_of(const Node& node, bool (*atom)(const Node&)) {
  if (node.kind != Kind::multiply || node.parts.size() != 2) return false;
  const Node& factor = *node.parts[1];
  return factor.kind == Kind::fraction && !factor.negative && factor.parts[0]->text == "1" &&
         factor.parts[1]->text == "100" && atom(*node.parts[0]);
}

bool only_symbols(const Node& node) {
  if (node.kind == Kind::symbol) return true;
  if (node.kind == Kind::power) {
    const Node& exponent = *node.parts[1];
    return exponent.kind == Kind::integer && exponent.negative && exponent.text == "1" &&
           only_symbols(*node.parts[0]);
  }
  if (node.parts.empty() || node.kind == Kind::interval || node.kind == Kind::fraction ||
      node.text == "derivative")
    return false;
  return std::all_of(node.parts.begin(), node.parts.end(),
                     [](const Tree& part) { return only_symbols(*part); });
}

namespace {

bool identical_in_any_order(const std::vector<Tree>& a, const std::vector<Tree>& b) {
  std::vector<bool> used(b.size(), false);
  for (const Tree& part : a) {
    size_t i = 0;
    while (i < b.size() && (used[i] || !identical(*part, *b[i]))) ++i;
    if (i == b.size()) return false;
    used[i] = true;
  }
  return true;
}

}  // namespace

bool identical(const Node& a, const Node& b) {
  if (&a == &b) return true;
  if (a.kind != b.kind || a.negative != b.negative || a.real != b.real ||
      a.left_open != b.left_open || a.right_open != b.right_open || a.rows != b.rows ||
      a.text != b.text || a.parts.size() != b.parts.size() || a.size != b.size)
    return false;
  if (a.kind == Kind::finite_set || a.kind == Kind::unite || a.kind == Kind::intersect)
    return identical_in_any_order(a.parts, b.parts);
  for (size_t i = 0; i < a.parts.size(); ++i)
    if (!identical(*a.parts[i], *b.parts[i])) return false;
  return true;
}

std::string describe(const Node& node) {
  static constexpr const char* names[] = {
      "integer",   "decimal",  "fraction", "mixed",    "infinity", "pi",        "euler",
      "imaginary", "symbol",   "add",      "multiply", "power",    "apply",     "call",
      "operator",  "set",      "tuple",    "interval", "unite",    "intersect", "complement",
      "named_set", "relation", "chain",    "matrix",   "nothing",  "invalid"};
  std::string text = node.negative ? "-" : "";
  if (node.kind == Kind::integer || node.kind == Kind::decimal || node.kind == Kind::symbol)
    return text + node.text;
  text += names[size_t(node.kind)];
  if (!node.text.empty()) text += ":" + node.text;
  if (node.kind == Kind::interval)
    text += std::string(node.left_open ? "(" : "[") + (node.right_open ? ")" : "]");
  if (node.parts.empty()) return text;
  text += "{";
  for (size_t i = 0; i < node.parts.size(); ++i) text += (i ? ", " : "") + describe(*node.parts[i]);
  return text + "}";
}

}  // namespace deltasane::answers
