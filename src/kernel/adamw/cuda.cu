#include "kernel/adamw/cuda.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernel/cuda/vectorized_row.cuh"
#include "tensor/cuda/launch.h"

namespace deltasane::kernel::cuda {
namespace {

constexpr int threads = 256;
constexpr int piece_elements = threads * octet * 2;

// Factors of a step that every slot shares.
struct Shared {
  float beta1, rest1, beta2, rest2, of_square, eps;
  double rate, correction;
};
// And those of one slot.
struct Factors {
  float kept, rate;
};

__device__ void update(const Shared& s, const Factors& f, float g, float& w, float& m, float& v) {
  m = s.beta1 * m + s.rest1 * g;
  v = s.beta2 * v + s.rest2 * g * g;
  w = f.kept * w - f.rate * m / (sqrtf(v) * s.of_square + s.eps);
}

__global__ void __launch_bounds__(threads)
    adamw_pieces(const Adamw::Piece* pieces, const __grid_constant__ Shared s,
                 const GradientNorm* norm, const __grid_constant__ Adamw::Buffers buffers) {
  if (!norm->finite) return;
  const float clip = norm->scale;
  const Adamw::Piece piece = pieces[blockIdx.x];
  const double rate = s.rate * piece.rate_factor;
  const Factors f{float(1 - rate * piece.decay), float(rate / s.correction)};
  const int octets = piece.elements / octet;
  for (int i = int(threadIdx.x); i < octets; i += threads) {
    const int64_t at = piece.offset + int64_t(i) * octet;
    float w[octet], g[octet], m[octet], v[octet];
    load(buffers.parameters + at, w);
    load(buffers.gradient + at, g);
    load(buffers.first + at, m);
    load(buffers.second + at, v);
#pragma unroll
    for (int j = 0; j < octet; ++j) update(s, f, clip * g[j], w[j], m[j], v[j]);
    store(buffers.parameters + at, w);
    store(buffers.first + at, m);
    store(buffers.second + at, v);
    if (buffers.copy) store(buffers.copy + at, w);
  }
  for (int i = octets * octet + int(threadIdx.x); i < piece.elements; i += threads) {
    const int64_t at = piece.offset + i;
    update(s, f, clip * buffers.gradient[at], buffers.parameters[at], buffers.first[at],
           buffers.second[at]);
    if (buffers.copy) store_one(buffers.copy + at, buffers.parameters[at]);
  }
}

std::vector<Adamw::Piece> pieces_of(std::span<const AdamwSlot> slots) {
  std::vector<Adamw::Piece> pieces;
  for (const AdamwSlot& slot : slots) {
    require(slot.offset % octet == 0, "a slot starts at a multiple of eight elements");
    for (int64_t begin = 0; begin < slot.elements; begin += piece_elements)
      pieces.push_back({slot.offset + begin,
                        int32_t(std::min<int64_t>(piece_elements, slot.elements - begin)),
                        slot.decay, slot.rate_factor});
  }
  return pieces;
}

}  // namespace

Adamw::Adamw(const Gpu& gpu, std::span<const AdamwSlot> slots) {
  const std::vector<Piece> pieces = pieces_of(slots);
  pieces_ = GpuTensor<Piece>(gpu, {int64_t(pieces.size())}, "the optimiser's slots");
  pieces_.upload(pieces, gpu);
}

void Adamw::step(const AdamwParams& n, const GradientNorm* norm, const Buffers& buffers,
                 const Gpu& gpu) const {
  require(n.step >= 1, "steps count from 1");
  require_aligned(buffers.parameters, buffers.copy, buffers.gradient, buffers.first,
                  buffers.second);
  if (pieces_.elements() == 0) return;
  const Shared shared{float(n.beta1),
                      float(1 - n.beta1),
                      float(n.beta2),
                      float(1 - n.beta2),
                      float(1 / std::sqrt(1 - std::pow(n.beta2, double(n.step)))),
                      float(n.epsilon),
                      n.rate,
                      1 - std::pow(n.beta1, double(n.step))};
  launch(adamw_pieces, {unsigned(pieces_.elements()), threads}, gpu, pieces_.data(), shared, norm,
         buffers);
}

}  // namespace deltasane::kernel::cuda
