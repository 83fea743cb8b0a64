// One token of one sequence in one kernel. Every multiprocessor has one block, which stays; the
// weights go on arriving (see cuda_weight_stream.cuh) while blocks wait for each other's results.
// The steps of a layer are those of cuda_decode.h.
//
// Results are handed on in turns (see hand_on). A place is written again only by who has seen
// results that could not be there before all had read it: every block has rows of every product,
// and every product reads all rows of the one before, or the heads together do. Who reads a place
// reads all of its numbers, so it cannot see again what it saw before its last one. The same order
// holds for the token shifts in the state.
#include <algorithm>
#include <cstddef>

#include "kernel/rwkv7/cuda_decode.h"
#include "kernel/rwkv7/cuda_head_step.cuh"
#include "kernel/rwkv7/cuda_token_inputs.cuh"
#include "kernel/rwkv7/cuda_weight_stream.cuh"
#include "tensor/cuda/launch.h"

namespace deltasane::kernel::cuda {
namespace {

// Of a block that has a head. The factors of a 0.4B and, with more pairs of channels, of a 2.9B in
// bf16 fit the registers.
constexpr int lanes = token_threads / head_size;
template <int pairs>
constexpr int kept = pairs == 1 ? 5 : 9;

// Where the rows of a product go.
struct Results {
  float* at;
  uint32_t turn;
};

template <class Weight>
struct TokenStep {
  TokenWeights<Weight> weights;
  LayerSizes sizes;
  TokenRoom room;
  DecodeSane sane;
  NextToken next;
  float *x, *y, *first_in, *other_in, *hidden;  // handed on; the first layer has places of its own
  float* logits;

  __device__ float* in(int layer) const { return layer > 0 ? other_in : first_in; }
  // How many numbers a place had before: of x, for or by the product with this number; of y and
  // hidden; of in.
  __device__ uint32_t turn_of_x(int number) const {
    return next.before * uint32_t(2 * sizes.layers + 1) + uint32_t(number) / 2;
  }
  __device__ uint32_t turn_of(int layer) const {
    return next.before * uint32_t(sizes.layers) + uint32_t(layer);
  }
  __device__ uint32_t turn_of_in(int layer) const {
    return layer > 0 ? next.before * uint32_t(sizes.layers - 1) + uint32_t(layer - 1) : next.before;
  }
  __device__ Results results_of(int number) const {
    const int layer = number / matrices;
    if (layer == int(sizes.layers)) return {logits, 0};
    switch (number % matrices) {
      case matrix_in:
        return {in(layer), turn_of_in(layer)};
      case matrix_key:
        return {hidden, turn_of(layer)};
      default:
        return {x, turn_of_x(number + 1)};
    }
  }

  // In a state, as DecodeInputs says.
  __device__ float* shift(float* state, int layer, int which) const {
    return state + (layer * 2 + which) * sizes.channels;
  }
  __device__ float* memory(float* state, int layer, int head) const {
    return shift(state, int(sizes.layers), 0) +
           (layer * sizes.heads + head) * int64_t(head_size * head_size);
  }
};

// Shared memory: pieces, sums of runs, norm, area, own rows of x, the layers' pointers, the
// products.
template <class Weight>
int64_t bytes_beside_pieces(const LayerSizes& s, const TokenRoom& room) {
  return int64_t(sizeof(RunSums)) +
         (s.channels + room.area + room.own_rows) * int64_t(sizeof(float)) +
         s.layers * int64_t(sizeof(LayerWeights<Weight>)) +
         (s.layers * matrices + 1) * int64_t(sizeof(TokenProduct<Weight>));
}

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
template <class Weight, int pairs>
__device__ float tau_of(const TokenStep<Weight>& p, const LayerWeights<Weight>& w,
                        const TokenInputs<Weight, pairs>& inputs, const float* shift,
                        float (*sums)[32]) {
  if (p.sane.kind == DecodeSane::Kind::constant) return p.sane.constant;
  const Weight* const row = w.w_tau + int64_t(blockIdx.x) * inputs.channels;
  float z[1] = {};
  for (int c = 2 * threadIdx.x; c < inputs.channels; c += 2 * token_threads) {
    const float2 u = two(inputs.u + c), before = shift_at(shift + c), mu = weight_at(w.x_tau + c);
    z[0] += to_float(row[c]) * (u.x + (before.x - u.x) * mu.x) +
            to_float(row[c + 1]) * (u.y + (before.y - u.y) * mu.y);
  }
  BlockSums<1>{sums}(z);
  return trained_tau(p.sane, z[0]);
}

// This block's part of the product with this number, by what lies in the GPU's memory: nothing has
// to be there before it.
template <class Weight>
__device__ TokenProduct<Weight> product_of(const TokenStep<Weight>& p, int number) {
  const LayerSizes& s = p.sizes;
  const int layer = number / matrices, kind = number % matrices;
  const Weight* matrix = p.weights.head;
  int64_t rows = p.weights.vocabulary, columns = s.channels;
  int segments = -1;
  if (layer < int(s.layers)) {
    const LayerWeights<Weight>& w = p.weights.layers[layer];
    matrix = kind == matrix_in       ? w.in
             : kind == matrix_output ? w.output
             : kind == matrix_key    ? w.ffn_key
                                     : w.ffn_value;
    rows = kind == matrix_key ? s.feed_forward : s.channels;
    if (kind == matrix_value) columns = s.feed_forward;
    if (kind == matrix_in) rows = InRows(s, layer == 0).rows(), segments = layer > 0;
  }
  return {matrix, segments, range_of(rows, int(blockIdx.x), int(gridDim.x)), int(columns)};
}

// Pieces of weights on their way: as many as shared memory holds beside the vectors of a 0.4B, a
// 2.9B, a 14B.
template <int pairs>
constexpr int depth_of = pairs == 1   ? 11
                         : pairs == 3 ? 9
                                      : 7;

// What a block has in shared memory whatever the model.
struct alignas(16) BlockPlace {
  HeadPlace head;
  float4 moments[token_warps];
  float v_first[head_size];  // of the block's head
  float sums[2][32];
  InRows segments[2];  // of the first layer, of the others
};

template <class Weight, int pairs>
__global__ void __launch_bounds__(token_threads, 1) token_kernel(TokenStep<Weight> p) {
  constexpr int depth = depth_of<pairs>;
  extern __shared__ __align__(16) uint4 ring[];
  __shared__ BlockPlace declared;
  auto& [place, moments, v_first, sums, segments] = kept_address(declared);
  const LayerSizes& s = p.sizes;
  const int block = int(blockIdx.x), blocks = int(gridDim.x), channels = int(s.channels);
  RunSums& run_sums = *reinterpret_cast<RunSums*>(ring + depth * (piece_bytes / 16));
  float* const u = reinterpret_cast<float*>(&run_sums + 1);
  float* const area = &kept_address(u[channels]);
  float* const own = &kept_address(area[p.room.area]);
  auto* const layers = reinterpret_cast<LayerWeights<Weight>*>(own + p.room.own_rows);
  auto* const products = reinterpret_cast<TokenProduct<Weight>*>(layers + s.layers);
  const int count = int(s.layers) * matrices + 1;
  const RowRange own_rows = range_of(s.channels, block, blocks);

  Embedding<pairs> embedding(p.weights, channels, p.next.token);
  const int words = int(s.layers * int64_t(sizeof(LayerWeights<Weight>)) / 8);
#pragma unroll 1
  for (int i = threadIdx.x; i < words; i += token_threads)
    reinterpret_cast<uint64_t*>(layers)[i] = reinterpret_cast<const uint64_t*>(p.weights.layers)[i];
  if (threadIdx.x < 2) segments[threadIdx.x] = InRows(s, threadIdx.x == 0);
#pragma unroll 1
  for (int i = threadIdx.x; i < count; i += token_threads) products[i] = product_of(p, i);
  __syncthreads();
  WeightStream<Weight, depth> stream(products, count, segments, run_sums, ring);
  const TokenInputs<Weight, pairs> inputs{channels, u, area, moments};
  float* const state = p.next.state;
  const bool chunk_ends = ends_chunk(p.sane, p.next.position);
  ask_for_layer(p, layers[0], 0, state);
  inputs.embed(embedding, p.weights.embedding_gain != nullptr);
#pragma unroll 1
  for (int i = threadIdx.x; i < own_rows.end - own_rows.begin; i += token_threads)
    hand_on(p.x + own_rows.begin + i, own[i] = u[own_rows.begin + i], p.turn_of_x(0));

    // Every other product reads a norm of x and its mixes; those between read what the heads or the
    // product before have left, and are added to x. The head is the last.
#pragma unroll 1
  for (int number = 0; number < count; ++number) {
    const bool at_end = number + 1 == count;
    if (at_end) let_next_kernel_start();
    const int layer = number / matrices, kind = at_end ? int(matrices) : number % matrices;
    const LayerWeights<Weight>& w = layers[at_end ? 0 : layer];
    const InRows& in = segments[layer > 0];
    const int own_begin = products[number].rows.begin, from = in.segment_of(own_begin);
    float* const shift = at_end ? nullptr : p.shift(state, layer, kind / 2);
    // What can be known before the product's input is there: nobody waits for this block yet.
    const Results to = p.results_of(number);
    const Then then = in.then(in.segment_of(own_begin + int(threadIdx.x)));  // of matrix_in
    if (kind % 2 == 0) {
      const bool time_mix = kind == matrix_in;
      inputs.norm(
          at_end     ? p.weights.norm_weight
          : time_mix ? w.ln1_weight
                     : w.ln2_weight,
          at_end     ? p.weights.norm_bias
          : time_mix ? w.ln1_bias
                     : w.ln2_bias,
          shift, time_mix ? in.segments_of(products[number].rows) : 1,
          [&](int i) { return time_mix ? in.mu(w, from + i) : w.ffn_x_k; }, p.x,
          p.turn_of_x(number));
    } else {
      if (kind == matrix_value && layer + 1 < int(s.layers))
        ask_for_layer(p, layers[layer + 1], layer + 1, state);
      if (kind == matrix_output && block < int(s.heads)) {
        const HeadRanks ranks(s, layer == 0);
        const int first = block * head_size;
        HeadEarly<Weight, lanes, kept<pairs>> early;
        early.load(w, ranks, block, p.memory(state, layer, block));
        const float tau = chunk_ends ? tau_of(p, w, inputs, shift, sums) : 0.0f;
        // The low vector, then the head's r, k and v.
        const auto place_of_raw = [&](int i) {
          const int raw = i - ranks.low;
          return p.in(layer) + (raw < 0 ? 3 * channels + i
                                        : raw / head_size * channels + first + raw % head_size);
        };
        each_handed(ranks.low + 3 * head_size, p.turn_of_in(layer), place_of_raw,
                    [&](int i, float2 both) { two(inputs.area + i) = both; });
        __syncthreads();
        const float* const own_raw = inputs.area + ranks.low;
        const HeadRaw raw{own_raw, own_raw + head_size, own_raw + 2 * head_size};
        const auto second = [&] { return second_factors(early, w, ranks, block, inputs.area); };
        make_inputs(early, ranks, raw, second, &v_first[0], place);
        const float y = finish_head(early, tau, place);
        if (threadIdx.x < head_size) hand_on(p.y + first + threadIdx.x, y, p.turn_of(layer));
        early.s.store(p.memory(state, layer, block));
      }
      const bool of_heads = kind == matrix_output;
      inputs.stage(of_heads ? p.y : p.hidden, of_heads ? channels : int(s.feed_forward),
                   p.turn_of(layer));
    }
    stream.multiply(
        number, inputs.area,
        [&](int row) { return kind == matrix_in ? (in.segment_of(row) - from) * channels : 0; },
        [&](int row, float sum) {
          if (at_end) {
            to.at[row] = sum;
            return;
          }
          if (kind % 2 == 1) sum = own[row - own_rows.begin] += sum;
          if (kind == matrix_key) sum = finished(sum, Then::squared_relu);
          if (kind == matrix_in) {
            const bool in_first_run = row == own_begin + int(threadIdx.x);
            if (const Then by = in_first_run ? then : in.then(in.segment_of(row));
                by != Then::nothing)
              sum = by == Then::tanh ? finished(sum, Then::tanh) : finished(sum, Then::sigmoid);
          }
          hand_on(to.at + row, sum, to.turn);
        });
    if (kind % 2 == 1)  // who wrote what this product has read has read the row before
#pragma unroll 1
      for (int row = own_rows.begin + threadIdx.x; row < own_rows.end; row += token_threads)
        shift[row] = u[row];
  }
}

template <class Weight>
struct Variant {
  void (*kernel)(TokenStep<Weight>);
  int64_t pieces;
};
template <class Weight>
Variant<Weight> variant_for(const LayerSizes& s) {
  const int64_t pairs = (s.channels + 2 * token_threads - 1) / (2 * token_threads);
  if (pairs == 1) return {token_kernel<Weight, 1>, depth_of<1>};
  if (pairs <= 3) return {token_kernel<Weight, 3>, depth_of<3>};
  return {token_kernel<Weight, most_pairs>, depth_of<most_pairs>};
}

}  // namespace

template <class Weight>
std::optional<TokenRoom> room_for_token(const LayerSizes& s, const Gpu& gpu) {
  constexpr int64_t declared = 4900;  // room for the kernel's own variables
  static_assert(sizeof(BlockPlace) <= declared);
  const int blocks = gpu.facts().multiprocessors;  // the order of writes needs as many
  int64_t mixes = 1;
  for (const bool first : {true, false})
    for (int block = 0; block < blocks; ++block) {
      const InRows in(s, first);
      mixes = std::max<int64_t>(mixes, in.segments_of(range_of(in.rows(), block, blocks)));
    }
  TokenRoom room;
  room.area = std::max<int64_t>(
      {mixes * s.channels, filled_columns<Weight>(s.feed_forward), s.low(false) + 3 * head_size});
  room.own_rows = (s.channels / blocks + 4) / 4 * 4;
  room.bytes = variant_for<Weight>(s).pieces * piece_bytes + bytes_beside_pieces<Weight>(s, room);
  const bool can = s.channels <= 2 * token_threads * most_pairs && s.heads <= blocks &&
                   s.channels >= blocks && s.feed_forward >= blocks &&
                   room.bytes + declared <= int64_t(gpu.facts().shared_bytes);
  return can ? std::optional(room) : std::nullopt;
}

template <class Weight>
void decode_token(const TokenWeights<Weight>& weights, const LayerSizes& sizes,
                  const TokenRoom& room, const DecodeSane& sane, const NextToken& next,
                  float* handed, float* logits, const Gpu& gpu) {
  TokenStep<Weight> p{};
  p.weights = weights, p.sizes = sizes, p.room = room, p.sane = sane, p.next = next;
  p.logits = logits;
  p.x = handed, p.y = p.x + sizes.channels, p.first_in = p.y + sizes.channels;
  p.other_in = p.first_in + sizes.rows_of_in(true);
  p.hidden = p.other_in + sizes.rows_of_in(false);
  launch_together(variant_for<Weight>(sizes).kernel,
                  {unsigned(gpu.facts().multiprocessors), token_threads, size_t(room.bytes)}, gpu,
                  p);
}

template std::optional<TokenRoom> room_for_token<float>(const LayerSizes&, const Gpu&);
template std::optional<TokenRoom> room_for_token<bf16>(const LayerSizes&, const Gpu&);
template void decode_token(const TokenWeights<float>&, const LayerSizes&, const TokenRoom&,
                           const DecodeSane&, const NextToken&, float*, float*, const Gpu&);
template void decode_token(const TokenWeights<bf16>&, const LayerSizes&, const TokenRoom&,
                           const DecodeSane&, const NextToken&, float*, float*, const Gpu&);

}  // namespace deltasane::kernel::cuda
