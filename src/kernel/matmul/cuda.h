// Matrix products on a GPU through cuBLASLt: 16-bit inputs with float sums, or float throughout.
//
// Row-major everywhere. One object per GPU and stream: it holds the library's handle, its workspace
// and the algorithm chosen for each shape.
#pragma once

#include <cstdint>
#include <memory>

#include "base/half.h"
#include "tensor/cuda/gpu.h"

namespace deltasane::kernel::cuda {

class Products {
 public:
  // After `autotune_after` calls with one large shape, all algorithms that the library proposes for
  // it are timed, and the fastest is kept of those that give the same bits as its first proposal.
  // 0: never. It costs as much as some 70 calls, so it is for few shapes that recur; prompts, of
  // which two blocks are in flight at once, are no faster for it.
  static constexpr int autotune = 16;
  // workspace: bytes on the GPU that the library may use.
  static constexpr uint64_t full_workspace = uint64_t{64} << 20;
  explicit Products(const Gpu& gpu, int autotune_after = 0, uint64_t workspace = full_workspace);
  ~Products();

  // c = op(a) op(b), op: as stored or transposed; (m, k) (k, n) -> (m, n):
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
    // Strided batch: how many, and elements from one to the next. 1: just one.
    int64_t count = 1, stride_a = 0, stride_b = 0, stride_c = 0;
    // c = addend + ..., where addend has c's layout and is not c; with it `add` is false. null:
    // none
    const Out* addend = nullptr;
  };
  template <class In, class Out>
  void multiply(const Product<In, Out>& product);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace deltasane::kernel::cuda
