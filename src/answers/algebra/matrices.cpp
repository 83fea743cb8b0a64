#include "answers/algebra/evaluate.h"

namespace deltasane::answers {

namespace {

constexpr int max_rows = 12;

// Gaussian elimination with partial pivoting: determinant and rank.
struct Eliminated {
  Complex determinant = 1.0;
  int rank = 0;
};

Eliminated eliminate(Value& matrix) {
  Eliminated result;
  for (int column = 0; column < matrix.columns && result.rank < matrix.rows; ++column) {
    int pivot = result.rank;
    for (int row = pivot + 1; row < matrix.rows; ++row)
      if (magnitude(matrix.at(pivot, column)) < magnitude(matrix.at(row, column))) pivot = row;
    if (nearly_equal(matrix.at(pivot, column), Complex())) {
      result.determinant = 0.0;
      continue;
    }
    if (pivot != result.rank) {
      for (int i = 0; i < matrix.columns; ++i)
        std::swap(matrix.at(pivot, i), matrix.at(result.rank, i));
      result.determinant = -result.determinant;
    }
    const Complex head = matrix.at(result.rank, column);
    result.determinant = result.determinant * head;
    for (int row = result.rank + 1; row < matrix.rows; ++row) {
      const Complex factor = matrix.at(row, column) / head;
      for (int i = column; i < matrix.columns; ++i)
        matrix.at(row, i) = matrix.at(row, i) - factor * matrix.at(result.rank, i);
    }
    ++result.rank;
  }
  return result;
}

}  // namespace

Value multiply(const Value& a, const Value& b) {
  if (a.is_number() || b.is_number()) {
    const Complex& factor = a.is_number() ? a.cells[0] : b.cells[0];
    Value result = a.is_number() ? b : a;
    for (Complex& cell : result.cells) cell = cell * factor;
    return result;
  }
  if (a.columns != b.rows || a.rows > max_rows || b.columns > max_rows || a.columns > max_rows)
    return unknown_value();
  Value result(a.rows, b.columns);
  for (int row = 0; row < a.rows; ++row)
    for (int column = 0; column < b.columns; ++column)
      for (int i = 0; i < a.columns; ++i)
        result.at(row, column) = result.at(row, column) + a.at(row, i) * b.at(i, column);
  return result;
}

Complex determinant(Value matrix) {
  if (matrix.rows > max_rows || !is_known(matrix)) return unknown_complex();
  return eliminate(matrix).determinant;
}

int rank(Value matrix) { return eliminate(matrix).rank; }

}  // namespace deltasane::answers
