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
  // Once a large product of one shape was asked for `tried_after` times all that the library offers
  // for it are tried, and the fastest is taken of those that give the same bits as its first offer.
  // 0: never. That takes as long as some 70 of them, so it is for few shapes that come again and
  // again; blocks of a stream, two of which are at work at once, are read no faster for it.
  static constexpr int for_few_shapes = 16;
  // workspace: bytes on the GPU that the library may use.
  static constexpr uint64_t full_workspace = uint64_t{64} << 20;
  explicit Products(const Gpu& gpu, int tried_after = 0, uint64_t workspace = full_workspace);
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
