// The weights of an RWKV-7 in a GPU's memory, converted to Real once. What one kernel reads lies
// together: the matrices of r, k, v and the first factors of w, a, v, g are one.
//
// Where a quantized type is wanted, the large matrices are blocks of it instead, those of r, k and v
// each by itself, and Real is bf16: LayerWeights, which the kernels of single tokens read, has none of
// them then. The embedding, the factors and all else are as they are without.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "kernel/matmul/quantized_cuda/matrix.h"
#include "model/rwkv7/checkpoint/checkpoint.h"
#include "model/rwkv7/decode/layer_weights.h"
#include "model/sane.h"
#include "tensor/cuda/gpu_tensor.h"

namespace deltasane {

// Of a layer, as products in blocks of rows read them.
template <class Real>
struct GpuLayerMatrices {
  kernel::cuda::GpuMatrix<Real> rkv[3], output, ffn_key, ffn_value;
  const Real* down = nullptr;  // the first factors of w a v g
};

template <class Real>  // float or bf16
class Rwkv7GpuWeights {
 public:
  // `sane`: x_tau and w_tau are wanted where it is trained. type: Real, or a quantized one, in which
  // quantized matrices of the file keep their own, if stored_types.
  Rwkv7GpuWeights(const Rwkv7Checkpoint& checkpoint, const Rwkv7Shape& shape, SaneKind sane,
                  kernel::WeightType type, bool stored_types, const Gpu& gpu);

  rwkv7::LayerSizes sizes;
  Rwkv7Norms norms;
  // Kernels that fuse a head's steps have one way to normalize keys.
  bool has_fused_norms() const { return norms.key == kernel::KeyNorm{}; }
  std::vector<rwkv7::LayerWeights<Real>> layers;
  std::vector<GpuLayerMatrices<Real>> matrices;
  const kernel::WeightType type;
  bool are_quantized() const { return is_quantized(type); }
  int64_t most_numbers() const;                            // of a layer's matrix
  const Real* embedding = nullptr;                         // (vocabulary, C)
  kernel::cuda::GpuMatrix<Real> head;                      // (vocabulary, C)
  const float *ln0_weight = nullptr, *ln0_bias = nullptr;  // absent where there is none
  const float *ln_out_weight = nullptr, *ln_out_bias = nullptr;
  uint64_t bytes = 0, embedding_bytes = 0;

 private:
  rwkv7::LayerWeights<Real> load_layer(int64_t index);
  const float* vector(const std::string& name);
  const Real* matrix(const std::string& name, int64_t rows, int64_t columns);
  // Quantized where that is wanted, and rows are whole 32.
  kernel::cuda::GpuMatrix<Real> large_matrix(const std::string& name, int64_t rows,
                                             int64_t columns);
  const Real* factor(const std::string& name, int64_t rows, int64_t columns);
  const Real* keep(const std::vector<Real>& numbers, const std::string& name);

  const Rwkv7Checkpoint& checkpoint_;  // while loading
  const Gpu& gpu_;
  SaneKind sane_;
  bool stored_types_;
  std::vector<GpuBuffer> memory_;
};

}  // namespace deltasane
