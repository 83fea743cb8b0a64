// What matrices are multiplied with: for each input, the sum of its squares over all tokens. The square of a weight's
// error times that is what the error costs in y.
#pragma once

#include <map>
#include <vector>

#include "kernel/matmul/weights.h"
#include "tensor/view.h"

namespace deltasane::kernel {

class InputSquares {
 public:
  struct Of {
    std::vector<double> sums;  // by input
    int64_t tokens = 0;
  };
  // x (tokens, in).
  void add(const Weights& w, View<const float> x);
  // null: nothing was multiplied with it.
  const Of* of(const Weights& w) const;

 private:
  std::map<const std::byte*, Of> by_rows_;  // where the matrix lies
};

}  // namespace deltasane::kernel
