#include "answers/algebra/evaluate.h"

#include <algorithm>
#include <utility>

#include "answers/algebra/exact.h"
#include "answers/algebra/functions.h"
#include "base/random.h"

namespace deltasane::answers {

namespace {

// FNV-1a; must not change between runs or machines.
uint64_t hash(std::string_view text) {
  uint64_t value = 0xcbf29ce484222325u;
  for (const char c : text) value = (value ^ uint8_t(c)) * 0x100000001b3u;
  return value;
}

// Away from zero, one and the domain boundaries of common functions.
Complex random_number(std::string_view name, int trial, bool real) {
  Random random(hash(name), uint64_t(trial));
  const double size = random.uniform(0.3, 0.95) + double(random.below(2));
  const bool negative = random.below(2) == 1 && trial > 0;
  if (real) return Real(negative ? -size : size);
  return {Real(negative ? -size : size), Real(random.uniform(0.2, 0.9))};
}

Value number(const mpq_class& value) { return Complex(to_real(value)); }

}  // namespace

Value unknown_value() { return unknown_complex(); }

bool is_known(const Value& value) {
  return std::all_of(value.cells.begin(), value.cells.end(),
                     [](const Complex& cell) { return cell.is_known(); });
}

bool nearly_equal(const Value& a, const Value& b) {
  if (a.rows != b.rows || a.columns != b.columns || a.cells.size() != b.cells.size()) return false;
  for (size_t i = 0; i < a.cells.size(); ++i)
    if (!nearly_equal(a.cells[i], b.cells[i])) return false;
  return true;
}

Value Evaluator::operator()(const Node& node) {
  if (--work_.left < 0) return unknown_value();
  Value value = unsigned_value(node);
  if (node.negative)
    for (Complex& cell : value.cells) cell = -cell;
  return value;
}

Value Evaluator::unsigned_value(const Node& node) {
  switch (node.kind) {
    case Kind::decimal:
      return decimal(node);
    case Kind::integer:
    case Kind::fraction:
    case Kind::mixed: {
      auto value = exact_value(node);
      if (!value) return unknown_value();
      return number(node.negative ? mpq_class(-*value) : *value);
    }
    case Kind::pi:
      return Complex(pi_real());
    case Kind::euler:
      return exponential(1.0);
    case Kind::imaginary:
      return Complex(Real(0.0), Real(1.0));
    case Kind::symbol:
      return symbol(node);
    case Kind::add:
      return sum(node);
    case Kind::multiply:
      return product(node);
    case Kind::power:
      return raised(node);
    case Kind::apply:
      return applied(node);
    case Kind::call:
      return some_function(node.text, node.parts);
    case Kind::subscripted:
      if (node.text == "sum" || node.text == "product") return finite_series(node);
      if (node.text == "derivative") return derivative(node);
      return some_function("\\" + node.text, node.parts);
    case Kind::matrix: {
      Value matrix(node.rows, int(node.parts.size()) / std::max(node.rows, 1));
      for (size_t i = 0; i < node.parts.size(); ++i) {
        const Value cell = (*this)(*node.parts[i]);
        matrix.cells[i] = cell.is_number() ? cell.cells[0] : unknown_complex();
      }
      return matrix;
    }
    default:
      return unknown_value();
  }
}

Complex Evaluator::decimal(const Node& node) const {
  const auto value = exact_value(node);
  if (!value) return unknown_complex();
  const Real exact = to_real(node.negative ? mpq_class(-*value) : *value);
  if (decimals_ == Decimals::exact) return exact;
  const Real binary(exact.to_double());
  if (decimals_ == Decimals::binary) return binary;
  return binary + binary * Real(0x1p-70);
}

Value Evaluator::inside(Decimals decimals, const Node& node) {
  if (is_constant(node)) return (*this)(node);
  const Decimals before = std::exchange(decimals_, std::max(decimals, decimals_));
  Value value = (*this)(node);
  decimals_ = before;
  return value;
}

Complex Evaluator::symbol(const Node& node) {
  const auto found = assigned_.find(node.text);
  if (found != assigned_.end()) return found->second;
  return random_number(node.real ? node.text : node.text + "?", trial_, node.real);
}

Value Evaluator::sum(const Node& node) {
  Value total = (*this)(*node.parts[0]);
  for (size_t i = 1; i < node.parts.size(); ++i) {
    const Value next = (*this)(*node.parts[i]);
    if (next.rows != total.rows || next.columns != total.columns) return unknown_value();
    for (size_t cell = 0; cell < next.cells.size(); ++cell)
      total.cells[cell] = total.cells[cell] + next.cells[cell];
  }
  return total;
}

Value Evaluator::product(const Node& node) {
  Value total = (*this)(*node.parts[0]);
  for (size_t i = 1; i < node.parts.size(); ++i) total = multiply(total, (*this)(*node.parts[i]));
  return total;
}

// Powers of matrices are not evaluated.
Value Evaluator::raised(const Node& node) {
  work_.left -= 10;
  const Value base = (*this)(*node.parts[0]);
  const Value exponent = inside(Decimals::binary, *node.parts[1]);
  if (!base.is_number() || !exponent.is_number()) return unknown_value();
  return power(base.cells[0], exponent.cells[0]);
}

// A central difference with a step so small that its truncation error is below the rounding.
Value Evaluator::derivative(const Node& node) {
  const Node& variable = *node.parts[1];
  if (variable.kind != Kind::symbol) return unknown_value();
  const Complex here = symbol(variable), step = power(2.0, -80.0);
  const auto before = assigned_;
  assign(variable.text, here + step);
  const Value above = (*this)(*node.parts[0]);
  assign(variable.text, here - step);
  const Value below = (*this)(*node.parts[0]);
  assigned_ = before;
  if (!above.is_number() || !below.is_number()) return unknown_value();
  return (above.cells[0] - below.cells[0]) / (step + step);
}

Value Evaluator::of_matrix(const std::string& name, const Value& matrix) {
  if (name == "transpose") {
    Value turned(matrix.columns, matrix.rows);
    for (int row = 0; row < matrix.rows; ++row)
      for (int column = 0; column < matrix.columns; ++column)
        turned.at(column, row) = matrix.at(row, column);
    return turned;
  }
  if (name == "norm") {
    Complex total;
    for (const Complex& cell : matrix.cells) {
      const Real size = magnitude(cell);
      total = total + Complex(size * size);
    }
    return power(total, 0.5);
  }
  if (matrix.rows != matrix.columns) return unknown_value();
  if (name == "det") return determinant(matrix);
  if (name == "rank") return Complex(double(rank(matrix)));
  if (name != "trace") return unknown_value();
  Complex total;
  for (int i = 0; i < matrix.rows; ++i) total = total + matrix.at(i, i);
  return total;
}

Value Evaluator::applied(const Node& node) {
  std::vector<Complex> arguments;
  work_.left -= node.text == "binomial" || node.text == "factorial" ? 500 : 10;
  const bool keeps_factors = node.text == "abs" || node.text == "max" || node.text == "min";
  for (const Tree& part : node.parts) {
    const Value value = keeps_factors ? (*this)(*part) : inside(Decimals::apart, *part);
    if (!value.is_number()) return of_matrix(node.text, value);
    if (!is_known(value)) return unknown_value();
    arguments.push_back(value.cells[0]);
  }
  return apply_function(node.text, arguments);
}

// Sums and products over a known, short range; others are compared as written.
Value Evaluator::finite_series(const Node& node) {
  constexpr long max_terms = 500;
  const Value first = (*this)(*node.parts[2]), last = (*this)(*node.parts[3]);
  const auto whole = [](const Value& value) {
    return value.is_number() && is_known(value) && value.cells[0].is_real() &&
           value.cells[0].re.is_integer() && value.cells[0].re.exponent() < 30;
  };
  if (node.parts[1]->kind != Kind::symbol || !whole(first) || !whole(last))
    return some_function("\\" + node.text, node.parts);
  const long from = mpfr_get_si(first.cells[0].re.raw(), MPFR_RNDN);
  const long to = mpfr_get_si(last.cells[0].re.raw(), MPFR_RNDN);
  if (to - from > max_terms) return unknown_value();
  const bool adding = node.text == "sum";
  const std::string& variable = node.parts[1]->text;
  const auto before = assigned_;
  Complex total = adding ? 0.0 : 1.0;
  for (long i = from; i <= to; ++i) {
    assign(variable, Real(double(i)));
    const Value term = (*this)(*node.parts[0]);
    if (!term.is_number()) return unknown_value();
    total = adding ? total + term.cells[0] : total * term.cells[0];
  }
  assigned_ = before;
  return total;
}

Value Evaluator::some_function(const std::string& name, const std::vector<Tree>& parts) {
  Complex mixed = random_number(name, 17, true);
  const Decimals before = std::exchange(decimals_, Decimals::apart);
  for (size_t i = 0; i < parts.size(); ++i) {
    const bool infinite = parts[i]->kind == Kind::infinity;
    const Value value =
        infinite ? random_number(parts[i]->negative ? "-oo" : "oo", 23, true) : (*this)(*parts[i]);
    for (const Complex& cell : value.cells)
      mixed = mixed + random_number(name + char('0' + i % 64), 19, true) * cell;
  }
  decimals_ = before;
  return mixed + mixed * mixed;
}

Complex evaluate_constant(const Node& node, Work& work, Decimals decimals) {
  const Value value = Evaluator(0, work, decimals)(node);
  return value.is_number() ? value.cells[0] : unknown_complex();
}

namespace {

void collect(const Node& node, Symbols& symbols) {
  if (node.kind == Kind::symbol) symbols.insert(node.text);
  for (const Tree& part : node.parts) collect(*part, symbols);
}

}  // namespace

Symbols free_symbols(const Node& node) {
  Symbols symbols;
  collect(node, symbols);
  return symbols;
}

bool is_constant(const Node& node) {
  if (node.kind == Kind::symbol || node.kind == Kind::call || node.kind == Kind::subscripted)
    return false;
  return std::all_of(node.parts.begin(), node.parts.end(),
                     [](const Tree& part) { return is_constant(*part); });
}

}  // namespace deltasane::answers
