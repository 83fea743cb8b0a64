// One token of one sequence in one kernel. Every multiprocessor has one block, which stays; the
// weights go on arriving (see cuda_weight_stream.cuh) while blocks wait for each other's results.
// The steps of a layer are those of cuda_decode.h.
//
// Results are handed on as tagged numbers; the tag is the token's and the product's. A place is
// written again only by who has seen results that could not be there before all had read it: every
// block has rows of every product, and every product reads all rows of the one before, or the heads
// together do. The same holds for the token shifts in the state.
#include <algorithm>
#include <cstddef>

#include "kernel/rwkv7/cuda_decode.h"
#include "kernel/rwkv7/cuda_head_step.cuh"
#include "kernel/rwkv7/cuda_weight_stream.cuh"
#include "tensor/cuda/launch.h"

namespace deltasane::kernel::cuda {
namespace {

// Of a block that has a head. The factors of a 2.9B in bf16 fit the registers.
constexpr int lanes = token_threads / head_size, kept = 9;

// The rows of a layer's first matrix by what they read: r k v w a v g; the first layer has no
// second v, and g in its place.
struct InRows {
  static constexpr int segments = 7;
  bool first;
  int end[segments];
  __host__ __device__ InRows(const LayerSizes& s, bool first_layer) : first(first_layer) {
    const int64_t rows[segments] = {s.channels,          s.channels, s.channels,
                                    s.rank_wa,           s.rank_wa,  first ? s.rank_g : s.rank_v,
                                    first ? 0 : s.rank_g};
    int at = 0;
    for (int i = 0; i < segments; ++i) end[i] = at += int(rows[i]);
  }
  __host__ __device__ int rows() const { return end[segments - 1]; }
  __host__ __device__ int segment_of(int row) const {
    int segment = 0;
    for (int i = 0; i + 1 < segments; ++i) segment += end[i] <= row;
    return segment;
  }
  // From the first segment of a range to its last.
  __host__ __device__ int segments_of(const RowRange& rows) const {
    return rows.begin < rows.end ? segment_of(rows.end - 1) - segment_of(rows.begin) + 1 : 0;
  }
  template <class Weight>
  __device__ const float* mu(const LayerWeights<Weight>& w, int segment) const {
    switch (segment) {
      case 0:
        return w.x_r;
      case 1:
        return w.x_k;
      case 3:
        return w.x_w;
      case 4:
        return w.x_a;
      default:
        return is_g(segment) ? w.x_g : w.x_v;
    }
  }
  __device__ Then then(int segment) const {
    return segment == 3 ? Then::tanh : is_g(segment) ? Then::sigmoid : Then::nothing;
  }

 private:
  __device__ bool is_g(int segment) const { return segment == (first ? 5 : 6); }
};

template <class Weight>
struct TokenStep {
  TokenWeights<Weight> weights;
  LayerSizes sizes;
  DecodeSane sane;
  const DecodeInputs* inputs;
  DecodeActivations activations;
  uint64_t *x, *y, *in, *hidden;  // tagged
  float* logits;
  int depth;         // pieces of weights on their way
  int64_t area;      // floats
  int64_t own_rows;  // of x, in a block

  // In a state, as DecodeInputs says.
  __device__ float* shift(float* state, int layer, int which) const {
    return state + (layer * 2 + which) * sizes.channels;
  }
  __device__ float* memory(float* state, int layer, int head) const {
    return shift(state, int(sizes.layers), 0) +
           (layer * sizes.heads + head) * int64_t(head_size * head_size);
  }
};

// Shared memory: pieces, norm, area, own rows of x, the layers' pointers.
template <class Weight>
int64_t bytes_beside_pieces(const TokenStep<Weight>& p) {
  return (p.sizes.channels + p.area + p.own_rows) * int64_t(sizeof(float)) +
         p.sizes.layers * int64_t(sizeof(LayerWeights<Weight>));
}

// Some seconds: then a kernel that waits for what does not come is an error, not a GPU that hangs.
constexpr int most_polls = 1 << 24;

// use(i, two numbers) for all pairs of `count` tagged numbers, i even and place(i) where they lie,
// by the threads in turns; each waits for its own. Four are asked for at once.
template <class Place, class Use>
__device__ void each_tagged(int count, uint32_t tag, Place place, Use use) {
  constexpr int at_once = 4, step = 2 * token_threads;
#pragma unroll 1
  for (int first = 2 * threadIdx.x; first < count; first += at_once * step) {
    TaggedPair pair[at_once];
#pragma unroll
    for (int i = 0; i < at_once; ++i)
      if (first + i * step < count) pair[i] = read_tagged(place(first + i * step));
#pragma unroll
    for (int i = 0; i < at_once; ++i) {
      const int at = first + i * step;
      if (at >= count) break;
      for (int polls = 0; !pair[i].has(tag); ++polls) {
        if (polls == most_polls) __trap();
        pair[i] = read_tagged(place(at));
      }
      use(at, pair[i].values());
    }
  }
}

__device__ inline float2& two(float* at) { return *reinterpret_cast<float2*>(at); }
// In the GPU's memory, where nothing changes it.
__device__ inline float2 weight_at(const float* at) {
  return __ldg(reinterpret_cast<const float2*>(at));
}

// A block's vectors in shared memory.
template <class Weight>
struct TokenInputs {
  int channels, filled;
  float* u;     // (C), the layer norm that was made last
  float* area;  // gain, bias and shift (C) each and the mixes; or the input of a product
  BlockSums<1> sums;

  __device__ float* gain() const { return area; }
  __device__ float* bias() const { return area + channels; }
  __device__ float* before() const { return area + 2 * channels; }
  __device__ float* mix(int i) const { return area + 3 * channels + i * filled; }

  // What a norm needs beside x. mu(i): of mix i; without `shift` there is one mix, the norm.
  template <class Mu>
  __device__ void prepare(const float* weight, const float* offset, const float* shift, int mixes,
                          Mu mu) const {
#pragma unroll 1
    for (int c = 2 * threadIdx.x; c < filled; c += 2 * token_threads) {
      const bool inside = c < channels;
      if (inside) {
        two(gain() + c) = weight_at(weight + c), two(bias() + c) = weight_at(offset + c);
        if (shift) two(before() + c) = __ldcg(reinterpret_cast<const float2*>(shift + c));
      }
#pragma unroll 2
      for (int i = 0; i < mixes; ++i)
        two(mix(i) + place_of<Weight>(c)) = shift && inside ? weight_at(mu(i) + c) : float2{0, 0};
    }
  }
  // Threads have the channels that they prepared.
  __device__ void norm(const uint64_t* x, uint32_t tag, bool shifted, int mixes) {
    float sum[1] = {};
    each_tagged(
        channels, tag, [&](int c) { return x + c; },
        [&](int c, float2 both) {
          two(u + c) = both;
          sum[0] += both.x + both.y;
        });
    sums(sum);
    const float mean = sum[0] / float(channels);
    sum[0] = 0;
#pragma unroll 1
    for (int c = 2 * threadIdx.x; c < channels; c += 2 * token_threads) {
      const float a = u[c] - mean, b = u[c + 1] - mean;
      sum[0] += a * a + b * b;
    }
    sums(sum);
    const float scale = 1.0f / sqrtf(sum[0] / float(channels) + few_norm_eps);
#pragma unroll 1
    for (int c = 2 * threadIdx.x; c < channels; c += 2 * token_threads) {
      const float2 g = two(gain() + c), b = two(bias() + c);
      const float2 n{(u[c] - mean) * scale * g.x + b.x, (u[c + 1] - mean) * scale * g.y + b.y};
      two(u + c) = n;
      const float2 from = shifted ? two(before() + c) : n;
#pragma unroll 1
      for (int i = 0; i < mixes; ++i) {
        float2& mixed = two(mix(i) + place_of<Weight>(c));
        mixed =
            shifted ? float2{n.x + (from.x - n.x) * mixed.x, n.y + (from.y - n.y) * mixed.y} : n;
      }
    }
    __syncthreads();
  }
  // `count` numbers become the input of a product.
  __device__ void stage(const uint64_t* from, int count, uint32_t tag) const {
    each_tagged(
        count, tag, [&](int c) { return from + c; },
        [&](int c, float2 both) { two(area + place_of<Weight>(c)) = both; });
    for (int c = count + threadIdx.x; c < filled_columns<Weight>(count); c += token_threads)
      area[place_of<Weight>(c)] = 0;
    __syncthreads();
  }
};

// Brings into the cache what a layer reads besides the matrices: a block has a vector, and what its
// head reads.
template <class Weight>
__device__ void ask_for_layer(const TokenStep<Weight>& p, const LayerWeights<Weight>& w, int layer,
                              float* state) {
  using Layer = LayerWeights<Weight>;
  constexpr int vectors = 19;  // the first members
  static_assert(offsetof(Layer, ln1_weight) == 0 &&
                offsetof(Layer, r_k) == (vectors - 1) * sizeof(const float*));
  const auto* const vector = reinterpret_cast<const float* const*>(&w);
  const int block = int(blockIdx.x);
  const int64_t bytes = p.sizes.channels * int64_t(sizeof(float));
#pragma unroll 1
  for (int i = block; i < vectors; i += int(gridDim.x))
    if (vector[i]) ask_for(vector[i], bytes);
  if (block + 1 == int(gridDim.x)) ask_for(p.shift(state, layer, 0), 2 * bytes);
  if (block >= int(p.sizes.heads)) return;
  ask_for(p.memory(state, layer, block), head_size * head_size * int64_t(sizeof(float)));
  ask_for_factors(w, p.sizes, layer > 0, block);
}

// tau of this block's head at the end of a chunk, for all threads. The norm that was made last is
// the time mix's.
template <class Weight>
__device__ float tau_of(const TokenStep<Weight>& p, const LayerWeights<Weight>& w,
                        TokenInputs<Weight>& inputs) {
  if (p.sane.kind == DecodeSane::Kind::constant) return p.sane.constant;
  const Weight* const row = w.w_tau + int64_t(blockIdx.x) * inputs.channels;
  const float *const u = inputs.u, *const before = inputs.before();
  float z[1] = {};
  for (int c = threadIdx.x; c < inputs.channels; c += token_threads)
    z[0] += to_float(row[c]) * (u[c] + (before[c] - u[c]) * w.x_tau[c]);
  inputs.sums(z);
  return trained_tau(p.sane, z[0]);
}

template <class Weight>
__global__ void __launch_bounds__(token_threads, 1) token_kernel(TokenStep<Weight> p) {
  extern __shared__ __align__(16) uint4 ring[];
  __shared__ __align__(16) HeadPlace place;
  __shared__ float sums[2][32];
  __shared__ TokenProducts<Weight> products;
  const LayerSizes& s = p.sizes;
  const DecodeActivations& act = p.activations;
  const int block = int(blockIdx.x), blocks = int(gridDim.x), channels = int(s.channels);
  float* const u = reinterpret_cast<float*>(ring + p.depth * (piece_bytes / 16));
  float* const own = u + channels + p.area;
  auto* const layers = reinterpret_cast<LayerWeights<Weight>*>(own + p.own_rows);
  const RowRange own_rows = range_of(s.channels, block, blocks);

  const int words = int(s.layers * int64_t(sizeof(LayerWeights<Weight>)) / 8);
  for (int i = threadIdx.x; i < words; i += token_threads)
    reinterpret_cast<uint64_t*>(layers)[i] = reinterpret_cast<const uint64_t*>(p.weights.layers)[i];
  for (int i = threadIdx.x; i < own_rows.end - own_rows.begin; i += token_threads)
    own[i] = act.x[own_rows.begin + i];
  if (threadIdx.x == 0) {
    products.layers = layers, products.head = p.weights.head;
    products.count = int(s.layers) * matrices + 1;
    products.channels = channels, products.feed_forward = int(s.feed_forward);
    products.first_in = range_of(InRows(s, true).rows(), block, blocks);
    products.in = range_of(InRows(s, false).rows(), block, blocks);
    products.channel = own_rows;
    products.hidden = range_of(s.feed_forward, block, blocks);
    products.vocabulary = range_of(p.weights.vocabulary, block, blocks);
  }
  __syncthreads();
  WeightStream<Weight> stream(products, ring, p.depth);
  TokenInputs<Weight> inputs{channels, filled_columns<Weight>(channels), u, u + channels, {sums}};
  float* const state = p.inputs->state[0];
  const bool chunk_ends = ends_chunk(p.sane, p.inputs->position[0]);
  uint32_t tag = p.inputs->tag;
  ask_for_layer(p, layers[0], 0, state);
  for (int i = threadIdx.x; i < own_rows.end - own_rows.begin; i += token_threads)
    write_tagged(p.x + own_rows.begin + i, own[i], tag);

  // A half of a layer: a norm, its mixes and the product that reads them; in the time mix the
  // heads; a product that is added to x. After the last layer there is the first product only.
  const int halves = 2 * int(s.layers);
  for (int half = 0; half <= halves; ++half) {
    const bool at_end = half == halves, time_mix = !at_end && half % 2 == 0;
    const int layer = half / 2;
    const LayerWeights<Weight>& w = layers[at_end ? 0 : layer];
    const InRows in(s, layer == 0);
    const RowRange rows = layer == 0 ? products.first_in : products.in;
    const int from = in.segment_of(rows.begin), mixes = time_mix ? in.segments_of(rows) : 1;
    inputs.prepare(at_end     ? p.weights.norm_weight
                   : time_mix ? w.ln1_weight
                              : w.ln2_weight,
                   at_end     ? p.weights.norm_bias
                   : time_mix ? w.ln1_bias
                              : w.ln2_bias,
                   at_end ? nullptr : p.shift(state, layer, half % 2), mixes,
                   [&](int i) { return time_mix ? in.mu(w, from + i) : w.ffn_x_k; });
    inputs.norm(p.x, tag, !at_end, mixes);
    ++tag;
    stream.multiply(
        2 * half, [&](int row) { return inputs.mix(time_mix ? in.segment_of(row) - from : 0); },
        [&](int row, float sum) {
          if (at_end)
            p.logits[row] = sum;
          else if (time_mix)
            write_tagged(p.in + row, finished(sum, in.then(in.segment_of(row))), tag);
          else
            write_tagged(p.hidden + row, finished(sum, Then::squared_relu), tag);
        });
    if (at_end) break;
    __syncthreads();  // the area may be written again
    if (!time_mix && layer + 1 < int(s.layers))
      ask_for_layer(p, layers[layer + 1], layer + 1, state);

    if (time_mix && block < int(s.heads)) {
      const HeadRanks ranks(s, layer == 0);
      const int first = block * head_size;
      float* const memory = p.memory(state, layer, block);
      HeadEarly<Weight, lanes, kept> early;
      early.load(w, ranks, block, memory);
      const float tau = chunk_ends ? tau_of(p, w, inputs) : 0.0f;
      // The low vector, then the head's r, k and v.
      const auto place_of_raw = [&](int i) {
        const int raw = i - ranks.low;
        return p.in +
               (raw < 0 ? 3 * channels + i : raw / head_size * channels + first + raw % head_size);
      };
      each_tagged(ranks.low + 3 * head_size, tag, place_of_raw,
                  [&](int i, float2 both) { two(inputs.area + i) = both; });
      __syncthreads();
      const float* const own_raw = inputs.area + ranks.low + threadIdx.x / lanes;
      const HeadRaw raw{own_raw[0], own_raw[head_size], own_raw[2 * head_size]};
      make_inputs(early, w, ranks, block, raw, inputs.area, act.v_first + first, place);
      const float y = finish_head(early, tau, place);
      if (threadIdx.x < head_size) write_tagged(p.y + first + threadIdx.x, y, tag);
      early.s.store(memory);
    }

    inputs.stage(time_mix ? p.y : p.hidden, time_mix ? channels : int(s.feed_forward), tag);
    ++tag;
    for (int row = own_rows.begin + threadIdx.x; row < own_rows.end; row += token_threads)
      p.shift(state, layer, half % 2)[row] = u[row];
    stream.multiply(
        2 * half + 1, [&](int) { return inputs.area; },
        [&](int row, float sum) {
          write_tagged(p.x + row, own[row - own_rows.begin] += sum, tag);
        });
    __syncthreads();  // the area may be written again
  }
}

// The sizes of shared memory; a depth of 0 where there is not enough, or not as many blocks as the
// order of writes needs.
template <class Weight>
TokenStep<Weight> plan(const LayerSizes& s, const Gpu& gpu) {
  constexpr int64_t declared = 4 << 10;  // room for the kernel's own variables
  static_assert(sizeof(HeadPlace) + sizeof(TokenProducts<Weight>) + 512 <= declared);
  const int blocks = gpu.facts().multiprocessors;
  TokenStep<Weight> p{};
  p.sizes = s;
  int64_t mixes = 1;
  for (const bool first : {true, false})
    for (int block = 0; block < blocks; ++block) {
      const InRows in(s, first);
      mixes = std::max<int64_t>(mixes, in.segments_of(range_of(in.rows(), block, blocks)));
    }
  p.area =
      std::max<int64_t>({3 * s.channels + mixes * filled_columns<Weight>(s.channels),
                         filled_columns<Weight>(s.feed_forward), s.low(false) + 3 * head_size});
  p.own_rows = (s.channels / blocks + 4) / 4 * 4;
  const int64_t left = int64_t(gpu.facts().shared_bytes) - declared - bytes_beside_pieces(p);
  p.depth = int(std::clamp<int64_t>(left / piece_bytes, 0, most_groups));
  if (p.depth < 2 || s.heads > blocks || s.channels < blocks || s.feed_forward < blocks)
    p.depth = 0;
  return p;
}

}  // namespace

template <class Weight>
bool can_decode_token(const LayerSizes& sizes, const Gpu& gpu) {
  return plan<Weight>(sizes, gpu).depth > 0;
}

template <class Weight>
void decode_token(const TokenWeights<Weight>& weights, const LayerSizes& sizes,
                  const DecodeSane& sane, const DecodeInputs* inputs,
                  const DecodeActivations& activations, uint64_t* words, float* logits,
                  const Gpu& gpu) {
  TokenStep<Weight> p = plan<Weight>(sizes, gpu);
  require(p.depth > 0, "a token in one kernel: asked for where the GPU has not the memory for it");
  p.weights = weights, p.sane = sane, p.inputs = inputs;
  p.activations = activations, p.logits = logits;
  p.x = words, p.y = p.x + sizes.channels, p.in = p.y + sizes.channels;
  p.hidden = p.in + sizes.rows_of_in(false);
  const int64_t shared = p.depth * int64_t(piece_bytes) + bytes_beside_pieces(p);
  launch_together(token_kernel<Weight>,
                  {unsigned(gpu.facts().multiprocessors), token_threads, size_t(shared)}, gpu, p);
}

template bool can_decode_token<float>(const LayerSizes&, const Gpu&);
template bool can_decode_token<bf16>(const LayerSizes&, const Gpu&);
template void decode_token(const TokenWeights<float>&, const LayerSizes&, const DecodeSane&,
                           const DecodeInputs*, const DecodeActivations&, uint64_t*, float*,
                           const Gpu&);
template void decode_token(const TokenWeights<bf16>&, const LayerSizes&, const DecodeSane&,
                           const DecodeInputs*, const DecodeActivations&, uint64_t*, float*,
                           const Gpu&);

}  // namespace deltasane::kernel::cuda
