// The optimisers' arithmetic on a GPU. Parameters, gradients and running means are rows of floats
// of one layout; a slot is one tensor's piece of it. Which slot has which rule is the caller's.
//
//   AdamW   m, v: running means of g and g^2, corrected for their start at 0
//           w <- (1 - rate decay) w - rate m / (sqrt(v) + eps)
//   Muon    m <- mu m + g;  w <- (1 - rate decay) w - rate 0.2 sqrt(max(rows, columns)) NS(g + mu
//   m)
//
// g is the gradient times the clip factor, which stays on the GPU. The steps also write the
// parameters in 16 bits, for the products. A gradient that is not finite changes nothing.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "base/half.h"
#include "kernel/matmul/cuda.h"
#include "tensor/cuda/gpu.h"
#include "tensor/cuda/gpu_tensor.h"

namespace deltasane::kernel::cuda {

struct GradientLength {
  double length = 0;   // of the whole gradient, before it is shortened
  float factor = 1;    // limit / (length + 1e-6) where the length is above the limit
  int32_t finite = 1;  // 0: then nothing is updated
};

// Measures a gradient of `count` floats (gaps between slots are zero). Sums are in double, in an
// order that depends on the count alone.
class GradientClip {
 public:
  GradientClip(const Gpu& gpu, int64_t count);
  ~GradientClip();

  void measure(const float* gradient, double limit, const Gpu& gpu);  // limit 0: never shorten
  const GradientLength* on_gpu() const { return length_.data(); }
  // Of the last measure: the host waits for it, not for what was asked for after it.
  GradientLength result() const;

 private:
  int64_t count_;
  GpuTensor<double> partial_;
  GpuTensor<GradientLength> length_;
  GradientLength* on_host_ = nullptr;  // pinned
  GpuEvent measured_;
};

struct AdamwSlot {
  int64_t offset, elements;
  double decay, rate_factor;
};
struct AdamwNumbers {
  double rate, beta1, beta2, epsilon;
  int64_t step;  // from 1
};

class Adamw {
 public:
  Adamw(const Gpu& gpu, std::span<const AdamwSlot> slots);

  struct Rows {
    float* parameters;
    bf16* copy;  // null: not wanted
    const float* gradient;
    float *first, *second;
  };
  void step(const AdamwNumbers& numbers, const GradientLength* length, const Rows& rows,
            const Gpu& gpu) const;

  struct Piece {
    int64_t offset;
    int32_t elements;
    double decay, rate_factor;
  };

 private:
  GpuTensor<Piece> pieces_;
};

struct MuonSlot {
  int64_t offset, rows, columns;
  double decay;
};
struct MuonNumbers {
  double rate, momentum;
};

// Newton-Schulz works in bf16 with float sums, on matrices that were divided by their length in
// float: x <- (3.4445 I - 4.7750 A + 2.0315 A A) x, A = x x', five times. Its results are the
// definition's to about two decimal digits, which the update does not notice (Jordan et al. 2024).
// Matrices of one shape go together.
class Muon {
 public:
  Muon(const Gpu& gpu, std::span<const MuonSlot> slots);
  ~Muon();

  struct Rows {
    float* parameters;
    bf16* copy;  // null: not wanted
    const float* gradient;
    float* momentum;
  };
  void step(const MuonNumbers& numbers, const GradientLength* length, const Rows& rows,
            Products& products, const Gpu& gpu);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace deltasane::kernel::cuda
