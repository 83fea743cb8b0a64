// The numerical value of an expression at a point.
//
// A point gives every symbol a number that depends only on the symbol's name and the number of the
// trial. Real symbols get real numbers of either sign, others complex numbers. An unknown function
// is some fixed function of its name and arguments, so f(x) equals f(x) and nothing else.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "answers/algebra/real.h"
#include "answers/tree.h"

namespace deltasane::answers {

struct Value {
  int rows = 0, columns = 0;  // 0 x 0: a number
  std::vector<Complex> cells;
  Value() = default;
  Value(Complex number) { cells.push_back(std::move(number)); }
  Value(int rows_, int columns_)
      : rows(rows_), columns(columns_), cells(size_t(rows_ * columns_)) {}
  bool is_number() const { return rows == 0; }
  Complex& at(int row, int column) { return cells[size_t(row * columns + column)]; }
  const Complex& at(int row, int column) const { return cells[size_t(row * columns + column)]; }
};
Value unknown_value();
bool nearly_equal(const Value& a, const Value& b);
bool is_known(const Value& value);

// What a decimal number such as 0.3 stands for. The reference computes with binary fractions, so
// that in an exponent 0.3 is not quite 3/10, and it never takes sin(0.5x) for sin(x/2).
enum class Decimals { exact, binary, apart };

// The remaining evaluation budget; a function value costs as much as ten additions.
struct Work {
  int left = 20000;
};

class Evaluator {
 public:
  Evaluator(int trial, Work& work, Decimals decimals = Decimals::exact)
      : trial_(trial), work_(work), decimals_(decimals) {}

  void assign(const std::string& symbol, Complex value) { assigned_[symbol] = std::move(value); }
  Value operator()(const Node& node);

 private:
  Value unsigned_value(const Node& node);
  Value sum(const Node& node);
  Value product(const Node& node);
  Value raised(const Node& node);
  Value derivative(const Node& node);
  Value applied(const Node& node);
  Value of_matrix(const std::string& name, const Value& matrix);
  Value finite_series(const Node& node);
  Value some_function(const std::string& name, const std::vector<Tree>& parts);
  Complex symbol(const Node& node);
  Complex decimal(const Node& node) const;
  Value inside(Decimals decimals, const Node& node);  // with decimals of that kind, if it varies

  int trial_;
  Work& work_;
  Decimals decimals_;
  std::map<std::string, Complex> assigned_;
};

// Unknown for matrices.
Complex evaluate_constant(const Node& node, Work& work, Decimals decimals = Decimals::exact);

using Symbols = std::set<std::string>;
Symbols free_symbols(const Node& node);
bool is_constant(const Node& node);  // no symbols and no unknown functions

// Matrix products and determinants: matrices.cpp
Value multiply(const Value& a, const Value& b);
Complex determinant(Value matrix);
int rank(Value matrix);

}  // namespace deltasane::answers
