// Subsets of the real line as sorted lists of disjoint intervals and points.
#include <algorithm>
#include <optional>

#include "answers/algebra/judge.h"

namespace deltasane::answers {

namespace {

constexpr size_t max_pieces = 200;

bool same_point(const Real& a, const Real& b) {
  if (!a.is_finite() || !b.is_finite())
    return !a.is_finite() && !b.is_finite() && a.sign() == b.sign();
  return nearly_equal(a, b);
}

bool below(const Real& a, const Real& b) { return a < b && !same_point(a, b); }

Real infinite(int sign) {
  Real result;
  mpfr_set_inf(result.raw(), sign);
  return result;
}

bool is_empty(const Piece& piece) {
  if (same_point(piece.low, piece.high))
    return piece.low_open || piece.high_open || !piece.low.is_finite();
  return piece.high < piece.low;
}

// Sorted, empty pieces dropped, touching pieces joined.
Pieces tidy(Pieces pieces) {
  std::erase_if(pieces, is_empty);
  std::sort(pieces.begin(), pieces.end(), [](const Piece& a, const Piece& b) {
    if (!same_point(a.low, b.low)) return a.low < b.low;
    return !a.low_open && b.low_open;
  });
  Pieces result;
  for (Piece& piece : pieces) {
    if (!result.empty()) {
      Piece& last = result.back();
      const bool touching = same_point(last.high, piece.low);
      if (below(piece.low, last.high) || (touching && (!last.high_open || !piece.low_open))) {
        if (same_point(last.high, piece.high))
          last.high_open = last.high_open && piece.high_open;
        else if (last.high < piece.high) {
          last.high = piece.high;
          last.high_open = piece.high_open;
        }
        continue;
      }
    }
    result.push_back(std::move(piece));
  }
  return result;
}

Pieces complement(const Pieces& pieces) {
  Pieces result;
  Piece gap{infinite(-1), infinite(1), true, true};
  for (const Piece& piece : pieces) {
    Piece before = gap;
    before.high = piece.low;
    before.high_open = !piece.low_open;
    result.push_back(std::move(before));
    gap.low = piece.high;
    gap.low_open = !piece.high_open;
  }
  result.push_back(std::move(gap));
  return tidy(std::move(result));
}

Pieces united(Pieces a, const Pieces& b) {
  a.insert(a.end(), b.begin(), b.end());
  return tidy(std::move(a));
}

Pieces intersection(const Pieces& a, const Pieces& b) {
  return complement(united(complement(a), complement(b)));
}

Piece point(const Real& value) { return {value, value, false, false}; }

// Roots of lhs - rhs in its only variable where that difference is linear or quadratic.
struct Polynomial {
  Real constant, linear, quadratic;
  Real operator()(const Real& x) const { return constant + x * (linear + x * quadratic); }
};

std::optional<Polynomial> as_polynomial(const Node& relation, const std::string& variable) {
  Work work;
  const auto value_at = [&](double x) -> Real {
    Evaluator evaluate(0, work);
    evaluate.assign(variable, Real(x));
    const Value left = evaluate(*relation.parts[0]), right = evaluate(*relation.parts[1]);
    if (!left.is_number() || !right.is_number()) return unknown_real();
    const Complex value = left.cells[0] - right.cells[0];
    return value.is_known() && value.is_real() ? value.re : unknown_real();
  };
  const Real at_zero = value_at(0), at_one = value_at(1), opposite = value_at(-1);
  Polynomial result{at_zero, (at_one - opposite) / Real(2.0),
                    (at_one + opposite) / Real(2.0) - at_zero};
  for (const double x : {2.375, -3.8125, 5.21875, -0.3125}) {
    const Real value = value_at(x);
    if (!value.is_finite() || !nearly_equal(result(Real(x)), value)) return {};
  }
  if (nearly_equal(result.quadratic, Complex())) result.quadratic = Real(0.0);
  return result;
}

std::vector<Real> real_roots(const Polynomial& f) {
  if (f.quadratic.is_zero()) {
    if (nearly_equal(f.linear, Complex())) return {};
    return {-(f.constant / f.linear)};
  }
  const Real discriminant = f.linear * f.linear - Real(4.0) * f.quadratic * f.constant;
  const Real middle = -(f.linear / (Real(2.0) * f.quadratic));
  if (nearly_equal(discriminant, Complex())) return {middle};
  if (discriminant.sign() < 0) return {};
  Real root;
  mpfr_sqrt(root.raw(), discriminant.raw(), MPFR_RNDN);
  const Real half = absolute(root / (Real(2.0) * f.quadratic));
  return {middle - half, middle + half};
}

}  // namespace

std::optional<Real> real_value(const Node& constant) {
  if (constant.kind == Kind::infinity) return infinite(constant.negative ? -1 : 1);
  if (is_set(constant) || constant.kind == Kind::tuple || is_relation(constant)) return {};
  if (!is_constant(constant)) return {};
  Work work;
  const Complex value = evaluate_constant(constant, work);
  if (!value.is_known() || !nearly_equal(value.im, Complex())) return {};
  return value.re;
}

std::optional<Pieces> real_pieces(const Node& set, Assignments assignments) {
  switch (set.kind) {
    case Kind::named_set:
      if (set.text.empty()) return Pieces{};
      if (set.text == "R") return Pieces{{infinite(-1), infinite(1), true, true}};
      return {};
    case Kind::interval: {
      auto low = real_value(*set.parts[0]), high = real_value(*set.parts[1]);
      if (!low || !high) return {};
      const bool low_open = set.left_open || !low->is_finite();
      const bool high_open = set.right_open || !high->is_finite();
      return tidy({{std::move(*low), std::move(*high), low_open, high_open}});
    }
    case Kind::finite_set: {
      if (set.parts.size() > max_pieces) return {};
      Pieces pieces;
      for (const Tree& element : set.parts) {
        const bool unwrapped = assignments == Assignments::as_values && is_assignment(*element);
        const Node& value = unwrapped ? *last_relation(*element).parts[1] : *element;
        const auto number = real_value(value);
        if (!number || !number->is_finite()) return {};
        pieces.push_back(point(*number));
      }
      return tidy(std::move(pieces));
    }
    case Kind::unite:
    case Kind::intersect:
    case Kind::complement: {
      auto left = real_pieces(*set.parts[0]);
      const auto right = real_pieces(*set.parts[1]);
      if (!left || !right || left->size() + right->size() > max_pieces) return {};
      if (set.kind == Kind::unite) return united(std::move(*left), *right);
      return intersection(*left, set.kind == Kind::intersect ? *right : complement(*right));
    }
    default:
      return {};
  }
}

// f(x) as a variable of its own.
Tree calls_as_symbols(const Tree& tree) {
  if (tree->kind == Kind::call) return make_symbol(describe(*tree), true);
  if (tree->parts.empty()) return tree;
  Node node = *tree;
  node.size = node.depth = 1;
  for (Tree& part : node.parts) part = calls_as_symbols(part);
  return make(std::move(node));
}

std::optional<Pieces> solution_pieces(const Tree& tree) {
  const Tree without_calls = calls_as_symbols(tree);
  const Node& relation = *without_calls;
  if (relation.kind == Kind::chain) {
    Pieces all = {{infinite(-1), infinite(1), true, true}};
    for (const Tree& part : relation.parts) {
      const auto pieces = solution_pieces(part);
      if (!pieces) return {};
      all = intersection(all, *pieces);
    }
    return all;
  }
  const Symbols variables = free_symbols(relation);
  if (variables.size() != 1) return {};
  const auto polynomial = as_polynomial(relation, *variables.begin());
  if (!polynomial) return {};
  const std::vector<Real> roots = real_roots(*polynomial);
  Pieces zeros;
  for (const Real& root : roots) zeros.push_back(point(root));
  if (relation.text == "=") return tidy(std::move(zeros));
  if (relation.text == "!=") return complement(tidy(std::move(zeros)));
  const bool wants_positive = relation.text[0] == '>';
  Pieces found;
  for (const Piece& gap : complement(tidy(zeros))) {
    const bool from_infinity = !gap.low.is_finite(), to_infinity = !gap.high.is_finite();
    Real inside = from_infinity ? (to_infinity ? Real(0.0) : gap.high - Real(1.0))
                  : to_infinity ? gap.low + Real(1.0)
                                : (gap.low + gap.high) / Real(2.0);
    const int sign = (*polynomial)(inside).sign();
    if (sign != 0 && (sign > 0) == wants_positive) found.push_back(gap);
  }
  if (relation.text.size() == 2) return united(std::move(found), zeros);
  return tidy(std::move(found));
}

bool same_pieces(const Pieces& a, const Pieces& b) {
  return a.size() == b.size() &&
         std::equal(a.begin(), a.end(), b.begin(), [](const Piece& x, const Piece& y) {
           return x.low_open == y.low_open && x.high_open == y.high_open &&
                  same_point(x.low, y.low) && same_point(x.high, y.high);
         });
}

Tree resolve_intervals(const Tree& tree) {
  if (tree->parts.empty()) return tree;
  Node node = *tree;
  bool changed = false;
  for (Tree& part : node.parts) {
    Tree resolved = resolve_intervals(part);
    if ((node.kind == Kind::unite || node.kind == Kind::intersect) && resolved->kind == Kind::tuple)
      resolved = make_set(resolved->parts);
    changed = changed || resolved != part;
    part = std::move(resolved);
  }
  if (node.kind == Kind::interval) {
    const auto low = real_value(*node.parts[0]), high = real_value(*node.parts[1]);
    if (low && high) {
      const bool equal = same_point(*low, *high), reversed = below(*high, *low);
      if (node.left_open && node.right_open && (equal || reversed))
        return make(Kind::tuple, node.parts);
      if (!node.left_open && !node.right_open && reversed) return make(Kind::tuple, node.parts);
      if (reversed || (equal && (node.left_open || node.right_open)))
        return make(Kind::named_set, {});
      if (equal) return low->is_finite() ? make_set({node.parts[1]}) : make(Kind::named_set, {});
    }
    const bool left = node.left_open || (node.parts[0]->kind == Kind::infinity);
    const bool right = node.right_open || (node.parts[1]->kind == Kind::infinity);
    changed = changed || left != node.left_open || right != node.right_open;
    node.left_open = left;
    node.right_open = right;
  }
  if (!changed) return tree;
  node.size = node.depth = 1;
  return make(std::move(node));
}

}  // namespace deltasane::answers
