// Forward, the producer warps: while the consumers use one tile's operands, they make the next
// one's out of inputs that have been loaded into registers, and load those of the tile after it.
#pragma once

#include "kernel/delta_rule/cuda/neutralize.cuh"
#include "kernel/delta_rule/cuda/operands.cuh"

namespace deltasane::kernel::cuda {

// Decays of a tile while its operands are made. A warp writes 16 channels of two tokens, eight
// tokens apart, and reads four of every eight channels of four tokens: both without bank conflicts.
struct ProducerDecays {
  alignas(16) float x[tile_tokens][head_size];
  __device__ static int place(int t, int channel) {
    return channel ^ channel / 32 * 4 ^ t / 8 * 16;
  }
  __device__ float& at(int t, int channel) { return x[t][place(t, channel)]; }
  __device__ void read(int t, int channel, float (&to)[8]) const {  // channel: a multiple of 8
    const auto four = [&](int c) { return *reinterpret_cast<const float4*>(&x[t][place(t, c)]); };
    Packed<float>{four(channel), four(channel + 4)}.unpack(to);
  }
};

struct ProducerMemory {
  ProducerDecays decays;  // W
  alignas(16) float ab[tile_tokens][tile_tokens + 4];
};

// groups: of producer_threads in a block, each with tiles of its own.
template <class Real, int groups = 1, SharedLayout layout = SharedLayout::padded>
struct OperandProducer {
  using Operands = ForwardOperands<Real, layout>;
  ProducerMemory& memory;
  int thread;                // of the group
  int token, part;           // of the vectors: this thread's token and the first of its 8 channels
  int channel, first_token;  // of the decay: a channel, and the first of 8 tokens
  int64_t step;              // from token to token
  const Real *a, *r, *b, *k, *v;
  const float* w;
  Packed<Real> next_a, next_r, next_b, next_k, next_v;
  float next_w[8];

  __device__ OperandProducer(ProducerMemory& memory, const DeltaRule<Real>& op, int first_thread)
      : memory(memory), thread(threadIdx.x - first_thread) {
    token = thread / 8, part = thread % 8 * 8;
    channel = thread / 32 * 16 + thread % 16, first_token = thread % 32 / 16 * 8;
    step = op.heads * head_size;
  }
  __device__ void set_head(const DeltaRule<Real>& op, int64_t sequence, int64_t head) {
    const int64_t first = (sequence * op.time * op.heads + head) * head_size;
    const int64_t mine = first + token * step + part;
    a = op.a + mine, r = op.r + mine, b = op.b + mine, k = op.k + mine, v = op.v + mine;
    w = op.w + first + first_token * step + channel;
  }

  __device__ void load(int64_t tile, int count) {
    const int64_t at = tile * tile_tokens * step;
    const auto load_vectors = [&] {
      next_a.load_constant(a + at), next_r.load_constant(r + at);
      next_b.load_constant(b + at), next_v.load_constant(v + at);
      next_k.load_constant(k + at);
    };
    if (count == tile_tokens) {  // nearly always, and on the critical path
      load_vectors();
#pragma unroll
      for (int t = 0; t < 8; ++t) next_w[t] = __ldg(w + at + t * step);
      return;
    }
    next_a = next_r = next_b = next_k = next_v = Packed<Real>();
    if (token < count) load_vectors();
#pragma unroll
    for (int t = 0; t < 8; ++t) next_w[t] = first_token + t < count ? __ldg(w + at + t * step) : 1;
  }

  __device__ static void sync() {
    if constexpr (groups == 1)
      named_barrier<1, producer_threads>();
    else  // behind the numbers of Exchange
      named_barrier<producer_threads>(2 + consumer_warps / 2 +
                                      threadIdx.x / producer_threads % groups);
  }

  // The loaded vectors with the decay taken out. The tile's decay is multiplied by `factor`.
  __device__ void make_vectors(Operands& to, const DecayFactor& factor = DecayFactor()) {
    float decay = 1;
#pragma unroll
    for (int t = 0; t < 8; ++t) next_w[t] = decay *= next_w[t];
    const float before = __shfl_up_sync(~0u, decay, 16);
#pragma unroll
    for (int t = 0; t < 8; ++t)
      memory.decays.at(first_token + t, channel) = first_token ? before * next_w[t] : next_w[t];
    if (first_token) to.decay[channel] = factor.times(before * decay);
    sync();
    float own[8], earlier[8] = {1, 1, 1, 1, 1, 1, 1, 1};
    memory.decays.read(token, part, own);
    if (token) memory.decays.read(token - 1, part, earlier);
    set_scaled(to.a, token, part, next_a, earlier);
    set_scaled(to.r, token, part, next_r, own);
#pragma unroll
    for (int i = 0; i < 8; ++i) own[i] = reciprocal(own[i]);
    set_scaled(to.b, token, part, next_b, own);
    set_scaled(to.k, token, part, next_k, own);
    float x[8];
    next_v.unpack(x);
    to.values.set(token, part, x);
    sync();
  }

  // The products of the vectors. Each warp has one of them; the first warp's takes longest, and two
  // groups have it on different schedulers. Two warps share the code of theirs: with a copy for
  // each, and SANE's branches for large entries, it would not fit into the instruction cache.
  template <PlaneOrder order = PlaneOrder::rows>
  __device__ void make_products(Operands& to) {
    const int warp =
        groups == 1 ? thread / 32 : (thread / 32 + threadIdx.x / producer_threads * 2) % 4;
    const bool of_k = warp >= 2;
    const auto& writes = of_k ? to.k : to.b;
    const auto product_with = [&](const auto& reads, int later) {
      return causal_product<StateAccumulator<Real, 2, order>>(reads, writes, later);
    };
    const auto store = [](auto& matrix, const Accumulator& sums) {
      sums.each([&](int t, int s, float x, float next) {
        const float two[2] = {x, next};
        matrix.set(t, s, two);
      });
    };
    if (warp % 2) {
      store(of_k ? to.rk : to.rb, product_with(to.r, 0));
    } else {
      const Accumulator sums = product_with(to.a, 1);
      if (of_k)
        store(to.ak, sums);
      else
        invert(sums, to);
    }
    sync();  // otherwise compute-sanitizer's racecheck reports what follows as a race
  }
  __device__ void invert(const Accumulator& ab, Operands& to) {
    ab.each([&](int t, int s, float x, float next) {
      *reinterpret_cast<float2*>(&memory.ab[t][s]) = {x, next};
    });
    __syncwarp();
    float x[tile_tokens], half[tile_tokens / 2];
    const int column = thread % 16;
    invert_column(memory.ab, column, x);
    const bool second = thread % 32 >= 16;
#pragma unroll
    for (int t = 0; t < 8; ++t) half[t] = second ? x[t + 8] : x[t];
    to.inverse.set(column, second ? 8 : 0, half);
  }
};

}  // namespace deltasane::kernel::cuda
