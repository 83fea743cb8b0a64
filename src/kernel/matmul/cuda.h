// Matrix products on a GPU through cuBLASLt: 16-bit inputs with float sums, or float throughout.
//
// Row-major everywhere. One object per GPU and queue: it holds the library's handle, its workspace
// and the algorithm that is taken for each shape.
#pragma once

#include <cstdint>
#include <memory>

#include "base/half.h"
#include "tensor/cuda/gpu.h"

namespace deltasane::kernel::cuda {

class Products {
 public:
  // The library's first choice for each shape; or, where a large product of one shape is asked for
  // often, the fastest of its choices that give the same bits, once it was asked for so many times.
  enum class Choice { first, fastest };
  static constexpr int asked_often = 16;
  explicit Products(const Gpu& gpu, Choice choice = Choice::first);
  ~Products();

  // c = a' b' with a, b taken as they lie or transposed; (m, k) (k, n) -> (m, n):
  //   nt   a (m, k), b (n, k)      y = x W', W as in *.weight
  //   nn   a (m, k), b (k, n)      y = x F; dx = dy W
  //   tn   a (k, m), b (k, n)      dW = dy' x
  enum class Form { nt, nn, tn };
  template <class In, class Out>  // (float, float), (bf16, bf16), (bf16, float)
  struct Product {
    Form form;
    int64_t m, n, k;
    const In *a, *b;
    Out* c;
    bool add = false;  // c += ...
    // Many products of one shape: how far apart, in elements. 1: just one.
    int64_t count = 1, step_a = 0, step_b = 0, step_c = 0;
    // c = plus + ..., where plus lies as c does and is not c; with it `add` is false. null: none
    const Out* plus = nullptr;
  };
  template <class In, class Out>
  void multiply(const Product<In, Out>& product);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace deltasane::kernel::cuda
