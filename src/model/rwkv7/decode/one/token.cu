// Every multiprocessor has one persistent block. The weight stream (weight_stream.cuh) keeps
// running while blocks poll for each other's results.
//
// Blocks exchange results through global memory without barriers; the turn of a number is in its
// lowest bit (see hand_on). A location is overwritten only by a block that has read results which
// could not exist before all blocks had read the location: every block has rows of every product,
// and every product reads all rows of the one before, or the heads together do. A reader of a
// location reads every number that is written there, so it cannot take the number of two turns ago
// for the current one. The same order protects the token shifts in the state.
#include "model/rwkv7/decode/one/token.h"

#include <algorithm>
#include <cstddef>

#include "model/rwkv7/decode/head_step.cuh"
#include "model/rwkv7/decode/one/token_inputs.cuh"
#include "model/rwkv7/decode/one/weight_stream.cuh"
#include "tensor/cuda/launch.h"

namespace deltasane::rwkv7::one {
namespace {

// Of a block that has a head: threads of a channel, and loads of its up projections in registers.
// Those of a 0.4B model and, with more pairs of channels, of a 2.9B in bf16 fit.
constexpr int lanes = token_threads / head_size;
template <int pairs>
constexpr int kept = pairs == 1 ? 5 : 9;

// Where the rows of a product are stored.
struct Results {
  float* at;
  uint32_t turn;
};

template <class Weight>
struct TokenStep {
  TokenWeights<Weight> weights;
  LayerSizes sizes;
  TokenSharedMemory shared;
  DecodeSane sane;
  NextToken next;
  float *x, *y, *first_in, *other_in, *hidden;  // exchanged; the first layer has an `in` of its own
  float* logits;

  __device__ float* in(int layer) const { return layer > 0 ? other_in : first_in; }
  // The turn, how many numbers a location had before: of x, for or by the product with this number;
  // of y and hidden; of in.
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

// Dynamic shared memory: the ring of tiles, sums of runs, norm, area, own rows of x, the layers'
// pointers, the products.
template <class Weight>
int64_t bytes_beside_ring(const LayerSizes& s, const TokenSharedMemory& shared) {
  return int64_t(sizeof(RunSums)) +
         (s.channels + shared.area + shared.own_rows) * int64_t(sizeof(float)) +
         s.layers * int64_t(sizeof(LayerWeights<Weight>)) +
         (s.layers * matrices + 1) * int64_t(sizeof(TokenProduct<Weight>));
}

// Into L2, what a layer reads besides the matrices: a block takes a vector, and what its head
// reads.
template <class Weight>
__device__ void prefetch_layer(const TokenStep<Weight>& p, const LayerWeights<Weight>& w, int layer,
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
    if (vector[i]) prefetch_l2(vector[i], bytes);
  if (block + 1 == int(gridDim.x)) prefetch_l2(p.shift(state, layer, 0), 2 * bytes);
  if (block >= int(p.sizes.heads)) return;
  prefetch_l2(p.memory(state, layer, block), head_size * head_size * int64_t(sizeof(float)));
  prefetch_up_projections(w, p.sizes, layer > 0, block);
}

// tau of this block's head at the end of a chunk, for all threads. inputs.u is the norm of the time
// mix.
template <class Weight, int pairs>
__device__ float head_tau(const TokenStep<Weight>& p, const LayerWeights<Weight>& w,
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

// This block's part of the product with this number. Reads only global memory that is written
// before the kernel starts.
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
    if (kind == matrix_in) rows = InputRows(s, layer == 0).rows(), segments = layer > 0;
  }
  return {matrix, segments, range_of(rows, int(blockIdx.x), int(gridDim.x)), int(columns)};
}

// Tiles of weights in flight: as many as shared memory holds beside the vectors of a 0.4B, a 2.9B,
// a 14B model.
template <int pairs>
constexpr int depth_of = pairs == 1   ? 11
                         : pairs == 3 ? 9
                                      : 7;

// Static shared memory of a block.
struct alignas(16) BlockShared {
  HeadShared head;
  float4 moments[token_warps];
  float v_first[head_size];  // of the block's head
  float sums[2][32];
  InputRows segments[2];  // of the first layer, of the others
};

template <class Weight, int pairs>
__global__ void __launch_bounds__(token_threads, 1) token_kernel(TokenStep<Weight> p) {
  constexpr int depth = depth_of<pairs>;
  extern __shared__ float4 dynamic_shared[];
  static __shared__ BlockShared declared;
  auto& [place, moments, v_first, sums, segments] = hoist_address(declared);
  const LayerSizes& s = p.sizes;
  const int block = int(blockIdx.x), blocks = int(gridDim.x), channels = int(s.channels);
  auto* const ring = reinterpret_cast<uint4*>(dynamic_shared);
  RunSums& run_sums = *reinterpret_cast<RunSums*>(ring + depth * (tile_bytes / 16));
  float* const u = reinterpret_cast<float*>(&run_sums + 1);
  float* const area = &hoist_address(u[channels]);
  float* const own = &hoist_address(area[p.shared.area]);
  auto* const layers = reinterpret_cast<LayerWeights<Weight>*>(own + p.shared.own_rows);
  auto* const products = reinterpret_cast<TokenProduct<Weight>*>(layers + s.layers);
  const int count = int(s.layers) * matrices + 1;
  const RowRange own_rows = range_of(s.channels, block, blocks);

  Embedding<pairs> embedding(p.weights, channels, p.next.token);
  const int words = int(s.layers * int64_t(sizeof(LayerWeights<Weight>)) / 8);
#pragma unroll 1
  for (int i = threadIdx.x; i < words; i += token_threads)
    reinterpret_cast<uint64_t*>(layers)[i] = reinterpret_cast<const uint64_t*>(p.weights.layers)[i];
  if (threadIdx.x < 2) segments[threadIdx.x] = InputRows(s, threadIdx.x == 0);
#pragma unroll 1
  for (int i = threadIdx.x; i < count; i += token_threads) products[i] = product_of(p, i);
  __syncthreads();
  WeightStream<Weight, depth> stream(products, count, segments, run_sums, ring);
  const TokenInputs<Weight, pairs> inputs{channels, u, area, moments, p.weights.eps.layer};
  float* const state = p.next.state;
  const bool chunk_ends = ends_chunk(p.sane, p.next.position);
  prefetch_layer(p, layers[0], 0, state);
  inputs.embed(embedding, p.weights.embedding_gain != nullptr);
#pragma unroll 1
  for (int i = threadIdx.x; i < own_rows.end - own_rows.begin; i += token_threads)
    store_tagged(p.x + own_rows.begin + i, own[i] = u[own_rows.begin + i], p.turn_of_x(0));

  // Even products read a norm of x and its mixes; odd ones read the results of the heads or of
  // the product before, and are added to x. The language model head is the last.
#pragma unroll 1
  for (int number = 0; number < count; ++number) {
    const bool at_end = number + 1 == count;
    if (at_end) trigger_dependent_launch();
    const int layer = number / matrices, kind = at_end ? int(matrices) : number % matrices;
    const LayerWeights<Weight>& w = layers[at_end ? 0 : layer];
    const InputRows& in = segments[layer > 0];
    const int own_begin = products[number].rows.begin, from = in.segment_of(own_begin);
    float* const shift = at_end ? nullptr : p.shift(state, layer, kind / 2);
    // Computed before the product's input has arrived: no block waits for this one yet.
    const Results to = p.results_of(number);
    const Epilogue epilogue =
        in.epilogue(in.segment_of(own_begin + int(threadIdx.x)));  // of matrix_in
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
        prefetch_layer(p, layers[layer + 1], layer + 1, state);
      if (kind == matrix_output && block < int(s.heads)) {
        const HeadRanks ranks(s, layer == 0);
        const int first = block * head_size;
        HeadPrefetch<Weight, lanes, kept<pairs>> early;
        early.load(w, ranks, block, p.memory(state, layer, block));
        const float tau = chunk_ends ? head_tau(p, w, inputs, shift, sums) : 0.0f;
        // The down projections, then the head's r, k and v.
        const auto place_of_raw = [&](int i) {
          const int raw = i - ranks.low;
          return p.in(layer) + (raw < 0 ? 3 * channels + i
                                        : raw / head_size * channels + first + raw % head_size);
        };
        each_exchanged(ranks.low + 3 * head_size, p.turn_of_in(layer), place_of_raw,
                    [&](int i, float2 both) { two(inputs.area + i) = both; });
        __syncthreads();
        const float* const own_raw = inputs.area + ranks.low;
        const HeadRaw raw{own_raw, own_raw + head_size, own_raw + 2 * head_size};
        const auto up = [&] { return up_projection(early, w, ranks, block, inputs.area); };
        make_inputs(early, ranks, raw, up, &v_first[0], place);
        const float y = finish_head(early, tau, p.weights.eps.group, place);
        if (threadIdx.x < head_size) store_tagged(p.y + first + threadIdx.x, y, p.turn_of(layer));
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
          if (kind == matrix_key) sum = apply(Epilogue::squared_relu, sum);
          if (kind == matrix_in) {
            const bool in_first_run = row == own_begin + int(threadIdx.x);
            if (const Epilogue by = in_first_run ? epilogue : in.epilogue(in.segment_of(row));
                by != Epilogue::none)
              sum =
                  by == Epilogue::tanh ? apply(Epilogue::tanh, sum) : apply(Epilogue::sigmoid, sum);
          }
          store_tagged(to.at + row, sum, to.turn);
        });
    // The writers of this product's input have read the shift of the token before.
    if (kind % 2 == 1)
#pragma unroll 1
      for (int row = own_rows.begin + threadIdx.x; row < own_rows.end; row += token_threads)
        shift[row] = u[row];
  }
}

template <class Weight>
struct Variant {
  void (*kernel)(TokenStep<Weight>);
  int64_t tiles;
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
std::optional<TokenSharedMemory> token_shared_memory(const LayerSizes& s, const Gpu& gpu) {
  constexpr int64_t declared = 4900;  // static shared memory
  static_assert(sizeof(BlockShared) <= declared);
  const int blocks = gpu.properties().multiprocessors;  // all resident: the order of writes needs it
  int64_t mixes = 1;
  for (const bool first : {true, false})
    for (int block = 0; block < blocks; ++block) {
      const InputRows in(s, first);
      mixes = std::max<int64_t>(mixes, in.segments_of(range_of(in.rows(), block, blocks)));
    }
  TokenSharedMemory shared;
  shared.area = std::max<int64_t>(
      {mixes * s.channels, padded_columns<Weight>(s.feed_forward), s.low(false) + 3 * head_size});
  shared.own_rows = (s.channels / blocks + 4) / 4 * 4;
  shared.bytes = variant_for<Weight>(s).tiles * tile_bytes + bytes_beside_ring<Weight>(s, shared);
  const bool can = s.channels <= 2 * token_threads * most_pairs && s.heads <= blocks &&
                   s.channels >= blocks && s.feed_forward >= blocks &&
                   shared.bytes + declared <= int64_t(gpu.properties().shared_bytes);
  return can ? std::optional(shared) : std::nullopt;
}

template <class Weight>
void decode_token(const TokenWeights<Weight>& weights, const LayerSizes& sizes,
                  const TokenSharedMemory& shared, const DecodeSane& sane, const NextToken& next,
                  float* exchanged, float* logits, const Gpu& gpu) {
  TokenStep<Weight> p{};
  p.weights = weights, p.sizes = sizes, p.shared = shared, p.sane = sane, p.next = next;
  p.logits = logits;
  p.x = exchanged, p.y = p.x + sizes.channels, p.first_in = p.y + sizes.channels;
  p.other_in = p.first_in + sizes.rows_of_in(true);
  p.hidden = p.other_in + sizes.rows_of_in(false);
  launch_cooperative(variant_for<Weight>(sizes).kernel,
                  {unsigned(gpu.properties().multiprocessors), token_threads, size_t(shared.bytes)}, gpu,
                  p);
}

template std::optional<TokenSharedMemory> token_shared_memory<float>(const LayerSizes&, const Gpu&);
template std::optional<TokenSharedMemory> token_shared_memory<bf16>(const LayerSizes&, const Gpu&);
template void decode_token(const TokenWeights<float>&, const LayerSizes&, const TokenSharedMemory&,
                           const DecodeSane&, const NextToken&, float*, float*, const Gpu&);
template void decode_token(const TokenWeights<bf16>&, const LayerSizes&, const TokenSharedMemory&,
                           const DecodeSane&, const NextToken&, float*, float*, const Gpu&);

}  // namespace deltasane::rwkv7::one
