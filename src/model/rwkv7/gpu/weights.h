// The weights of an RWKV-7 in a GPU's memory, converted to Real once. What one kernel reads lies
// together: the matrices of r, k, v and the first factors of w, a, v, g are one.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "model/rwkv7/checkpoint/checkpoint.h"
#include "model/rwkv7/decode/layer_weights.h"
#include "model/sane.h"
#include "tensor/cuda/gpu_tensor.h"

namespace deltasane {

template <class Real>  // float or bf16
class Rwkv7GpuWeights {
 public:
  // `sane`: x_tau and w_tau are wanted where it is trained.
  Rwkv7GpuWeights(const Rwkv7Checkpoint& checkpoint, const Rwkv7Shape& shape, SaneKind sane,
                  const Gpu& gpu);

  rwkv7::LayerSizes sizes;
  Rwkv7Norms norms;
  // Kernels that fuse a head's steps have one way to normalize keys.
  bool has_fused_norms() const { return norms.key == kernel::KeyNorm{}; }
  std::vector<rwkv7::LayerWeights<Real>> layers;
  const Real *embedding = nullptr, *head = nullptr;        // (vocabulary, C)
  const float *ln0_weight = nullptr, *ln0_bias = nullptr;  // absent where there is none
  const float *ln_out_weight = nullptr, *ln_out_bias = nullptr;
  uint64_t bytes = 0, embedding_bytes = 0;

 private:
  rwkv7::LayerWeights<Real> load_layer(int64_t index);
  const float* vector(const std::string& name);
  const Real* matrix(const std::string& name, int64_t rows, int64_t columns);
  const Real* factor(const std::string& name, int64_t rows, int64_t columns);
  const Real* keep(const std::vector<Real>& numbers, const std::string& name);

  const Rwkv7Checkpoint& checkpoint_;  // while loading
  const Gpu& gpu_;
  SaneKind sane_;
  std::vector<GpuBuffer> memory_;
};

}  // namespace deltasane
