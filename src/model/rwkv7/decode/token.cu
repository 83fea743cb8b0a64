// Every multiprocessor has one persistent block. The weight stream (weight_stream.cuh) keeps
// running while blocks poll for each other's results.
//
// Blocks exchange results through global memory without barriers; the turn of a number is in its
// lowest bit (see hand_on). A location is overwritten only by a block that has read results which
// could not exist before all blocks had read the location: every block has rows of every product,
// and every product reads all rows of the one before, or the heads of all sequences together do. A
// reader of a location reads every number that is written there, so it cannot take the number of two
// turns ago for the current one. The same order protects the token shifts in the state.
#include "model/rwkv7/decode/token.h"

#include <algorithm>
#include <cstddef>

#include "model/rwkv7/decode/head_step.cuh"
#include "model/rwkv7/decode/token_inputs.cuh"
#include "model/rwkv7/decode/weight_stream.cuh"
#include "tensor/cuda/launch.h"

namespace deltasane::rwkv7 {
namespace {

// A block has one head of one sequence at a time (a unit). Threads of a channel, and loads of its up
// projections in registers: those of a 0.4B model and, with more pairs of channels, of a 2.9B in bf16
// fit.
constexpr int lanes = token_threads / head_size;
template <int pairs>
constexpr int kept = pairs == 1 ? 5 : 9;

// Where the rows of a product of one sequence are stored.
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
  NextTokens next;
  uint32_t chunk_ends;  // bit n: sequence n is at the end of a chunk
  float share;          // of a channel in a mean
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
  __device__ Results results_of(int number, const InputRows& rows, int64_t sequence) const {
    const int layer = number / matrices;
    if (layer == int(sizes.layers)) return {logits + sequence * weights.vocabulary, 0};
    switch (number % matrices) {
      case matrix_in:
        return {in(layer) + sequence * rows.rows(), turn_of_in(layer)};
      case matrix_key:
        return {hidden + sequence * sizes.feed_forward, turn_of(layer)};
      default:
        return {x + sequence * sizes.channels, turn_of_x(number + 1)};
    }
  }
  __device__ int units() const { return int(sizes.heads) * next.count; }
  __device__ int head_of(int unit) const { return unit % int(sizes.heads); }
  __device__ int sequence_of(int unit) const { return unit / int(sizes.heads); }

  // In a state, as DecodeInputs says.
  __device__ float* shift(float* state, int layer, int which) const {
    return state + (layer * 2 + which) * sizes.channels;
  }
  __device__ float* memory(float* state, int layer, int head) const {
    return shift(state, int(sizes.layers), 0) +
           (layer * sizes.heads + head) * int64_t(head_size * head_size);
  }
};

// Dynamic shared memory: the ring of tiles, sums of runs, norms, area, own rows of x, v_first of the
// units, the layers' pointers, the products.
template <class Weight, int N>
int64_t bytes_beside_ring(const LayerSizes& s, const TokenSharedMemory& shared) {
  return int64_t(sizeof(RunSums<N>)) +
         (N * (s.channels + shared.own_rows) + shared.area + shared.v_first) *
             int64_t(sizeof(float)) +
         s.layers * int64_t(sizeof(LayerWeights<Weight>)) +
         (s.layers * matrices + 1) * int64_t(sizeof(TokenProduct<Weight>));
}

// Into L2, what a layer reads besides the matrices: a block takes a vector, and what its units read.
template <int N, class Weight>
__device__ void prefetch_layer(const TokenStep<Weight>& p, const LayerWeights<Weight>& w,
                               int layer) {
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
  const auto prefetch_unit = [&](int head, int n) {
    prefetch_l2(p.memory(p.next.state[n], layer, head),
                head_size * head_size * int64_t(sizeof(float)));
    prefetch_up_projections(w, p.sizes, layer > 0, head);
  };
  if constexpr (N == 1) {
    if (block + 1 == int(gridDim.x)) prefetch_l2(p.shift(p.next.state[0], layer, 0), 2 * bytes);
    if (block < int(p.sizes.heads)) prefetch_unit(block, 0);
  } else {
#pragma unroll 1
    for (int n = int(gridDim.x) - 1 - block; n < p.next.count; n += int(gridDim.x))
      prefetch_l2(p.shift(p.next.state[n], layer, 0), 2 * bytes);
#pragma unroll 1
    for (int unit = block; unit < p.units(); unit += int(gridDim.x))
      prefetch_unit(p.head_of(unit), p.sequence_of(unit));
  }
}

// tau of a head at the end of a chunk, for all threads. own_u is the norm of the time mix, shift that
// of the token before.
template <class Weight>
__device__ float head_tau(const TokenStep<Weight>& p, const LayerWeights<Weight>& w, int head,
                          float* own_u, const float* shift, float (*sums)[32]) {
  if (p.sane.kind == DecodeSane::Kind::constant) return p.sane.constant;
  const int channels = int(p.sizes.channels);
  const Weight* const row = w.w_tau + int64_t(head) * channels;
  float z[1] = {};
#pragma unroll 1  // what the head has loaded needs the registers
  for (int c = 2 * threadIdx.x; c < channels; c += 2 * token_threads) {
    const float2 u = two(own_u + c), before = shift_at(shift + c), mu = weight_at(w.x_tau + c);
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
template <int pairs, int N>
constexpr int depth_of = pairs == 1   ? (N == 1 ? 11 : N == 2 ? 9 : 5)
                         : pairs == 3 ? (N == 1 ? 9 : 5)
                                      : 7;

// Static shared memory of a block.
template <int N>
struct alignas(16) BlockShared {
  HeadShared head;
  NormShared<N> norm;
  float sums[2][32];
  InputRows segments[2];  // of the first layer, of the others
};

// For up to N sequences.
template <class Weight, int pairs, int N>
__global__ void __launch_bounds__(token_threads, 1) token_kernel(const __grid_constant__ TokenStep<Weight> p) {
  constexpr int depth = depth_of<pairs, N>;
  // Aligned as the lines that are copied into it: at an odd multiple of 16 bytes each 64 bytes of a row
  // would be in two lines.
  alignas(128) extern __shared__ float4 dynamic_shared[];
  static __shared__ BlockShared<N> declared;
  auto& [place, norm_shared, sums, segments] = hoist_address(declared);
  const LayerSizes& s = p.sizes;
  const int block = int(blockIdx.x), blocks = int(gridDim.x), channels = int(s.channels);
  const int sequences = N == 1 ? 1 : p.next.count;
  auto* const ring = reinterpret_cast<uint4*>(dynamic_shared);
  auto& run_sums = *reinterpret_cast<RunSums<N>*>(ring + depth * (tile_bytes / 16));
  float* const u = reinterpret_cast<float*>(&run_sums + 1);
  float* const area = &hoist_address(u[N * channels]);
  float* const own = &hoist_address(area[p.shared.area]);
  const int stride_of_own = int(p.shared.own_rows);
  float* const v_first = own + N * stride_of_own;  // of the block's units
  auto* const layers = reinterpret_cast<LayerWeights<Weight>*>(v_first + p.shared.v_first);
  auto* const products = reinterpret_cast<TokenProduct<Weight>*>(layers + s.layers);
  const int count = int(s.layers) * matrices + 1;
  const RowRange own_rows = range_of(s.channels, block, blocks);

  Embedding<pairs, N> embedding(p.weights, channels, p.next);
  const int words = int(s.layers * int64_t(sizeof(LayerWeights<Weight>)) / 8);
#pragma unroll 1
  for (int i = threadIdx.x; i < words; i += token_threads)
    reinterpret_cast<uint64_t*>(layers)[i] = reinterpret_cast<const uint64_t*>(p.weights.layers)[i];
  if (threadIdx.x < 2) segments[threadIdx.x] = InputRows(s, threadIdx.x == 0);
#pragma unroll 1
  for (int i = threadIdx.x; i < count; i += token_threads) products[i] = product_of(p, i);
  __syncthreads();
  WeightStream<Weight, depth, N> stream(products, count, segments, run_sums, ring);
  const TokenInputs<Weight, pairs, N> inputs{channels, sequences, u,
                                             area,     &norm_shared, p.share, p.weights.eps.layer};
  // use(sequence, row) for the block's rows of x.
  const auto each_own_row = [&](auto use) {
    int thread = int(threadIdx.x);
    optimization_barrier(thread);  // as each_pair
    const int n = thread % N, end = own_rows.end;
    if (!is_there<N>(n, sequences)) return;
#pragma unroll 1
    for (int row = own_rows.begin + thread / N; row < end; row += token_threads / N) use(n, row);
  };
  prefetch_layer<N>(p, layers[0], 0);
  inputs.embed(embedding, p.weights.embedding_gain != nullptr);
  each_own_row([&](int n, int row) {
    const float x = own[n * stride_of_own + row - own_rows.begin] = u[n * channels + row];
    store_tagged(p.x + n * channels + row, x, p.turn_of_x(0));
  });

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
    float* const shift = p.shift(p.next.state[0], layer, kind / 2);  // of one sequence
    const auto shift_of = [&](int n) {
      return N == 1 ? shift : p.shift(p.next.state[n], layer, kind / 2);
    };
    // Computed before the product's input has arrived: no block waits for this one yet.
    const int own_sequence = stream.own_sequence();
    const Results to = p.results_of(number, in, own_sequence);
    const Epilogue epilogue =
        in.epilogue(in.segment_of(own_begin + int(threadIdx.x) % 32));  // of matrix_in
    if (kind % 2 == 0) {
      const bool time_mix = kind == matrix_in;
      inputs.norm(
          at_end     ? p.weights.norm_weight
          : time_mix ? w.ln1_weight
                     : w.ln2_weight,
          at_end     ? p.weights.norm_bias
          : time_mix ? w.ln1_bias
                     : w.ln2_bias,
          !at_end, shift_of, time_mix ? in.segments_of(products[number].rows) : 1,
          [&](int i) { return time_mix ? in.mu(w, from + i) : w.ffn_x_k; }, p.x,
          p.turn_of_x(number));
    } else {
      if (kind == matrix_value && layer + 1 < int(s.layers))
        prefetch_layer<N>(p, layers[layer + 1], layer + 1);
      // A head of a sequence.
      const auto step_unit = [&](int head, int n, float* own_v_first) {
        const HeadRanks ranks(s, layer == 0);
        const int first = head * head_size;
        float* const memory = p.memory(p.next.state[n], layer, head);
        HeadPrefetch<Weight, lanes, kept<pairs>> early;
        early.load(w, ranks, head, memory);
        const float tau = p.chunk_ends >> n & 1
                              ? head_tau(p, w, head, u + n * channels, shift_of(n), sums)
                              : 0.0f;
        // The down projections, then the head's r, k and v.
        const float* const made = p.in(layer) + n * in.rows();
        const auto place_of_raw = [&](int, int i) {
          const int raw = i - ranks.low;
          return made + (raw < 0 ? 3 * channels + i
                                 : raw / head_size * channels + first + raw % head_size);
        };
        each_exchanged<1, 1>(1, ranks.low + 3 * head_size, p.turn_of_in(layer), place_of_raw,
                             [&](int, int i, float2 both) { two(inputs.area + i) = both; });
        __syncthreads();
        const float* const own_raw = inputs.area + ranks.low;
        const HeadRaw raw{own_raw, own_raw + head_size, own_raw + 2 * head_size};
        const auto up = [&] { return up_projection(early, w, ranks, head, inputs.area); };
        make_inputs(early, ranks, raw, up, own_v_first, place);
        const float y = finish_head(early, tau, p.weights.eps.group, place);
        if (threadIdx.x < head_size)
          store_tagged(p.y + n * channels + first + threadIdx.x, y, p.turn_of(layer));
        early.s.store(memory);
      };
      if constexpr (N == 1) {
        if (kind == matrix_output && block < int(s.heads)) step_unit(block, 0, v_first);
      } else if (kind == matrix_output) {
        float* own_v_first = v_first;
#pragma unroll 1
        for (int unit = block; unit < p.units(); unit += blocks, own_v_first += head_size)
          step_unit(p.head_of(unit), p.sequence_of(unit), own_v_first);
      }
      const bool of_heads = kind == matrix_output;
      inputs.stage(of_heads ? p.y : p.hidden, of_heads ? channels : int(s.feed_forward),
                   p.turn_of(layer));
    }
    stream.multiply(
        number, sequences, inputs.area,
        [&](int row) {
          return kind == matrix_in ? (in.segment_of(row) - from) * inputs.words_of_mix() : 0;
        },
        [&](int row, float sum) {
          if (at_end) {
            to.at[row] = sum;
            return;
          }
          if (kind % 2 == 1)
            sum = own[own_sequence * stride_of_own + row - own_begin] += sum;
          if (kind == matrix_key) sum = apply(Epilogue::squared_relu, sum);
          if (kind == matrix_in) {
            const bool in_first_run = row == own_begin + int(threadIdx.x) % 32;
            if (const Epilogue by = in_first_run ? epilogue : in.epilogue(in.segment_of(row));
                by != Epilogue::none)
              sum =
                  by == Epilogue::tanh ? apply(Epilogue::tanh, sum) : apply(Epilogue::sigmoid, sum);
          }
          store_tagged(to.at + row, sum, to.turn);
        });
    // The writers of this product's input have read the shift of the token before.
    if (kind % 2 == 1)
      each_own_row([&](int n, int row) { shift_of(n)[row] = u[n * channels + row]; });
  }
}

// Calls use.operator()<pairs, N>() of the kernel for so many sequences; false where there is none.
template <class Weight, class Use>
bool with_variant(const LayerSizes& s, int sequences, Use use) {
  const int64_t pairs = (s.channels + 2 * token_threads - 1) / (2 * token_threads);
  if (pairs == 1) {
    if (sequences == 1) return use.template operator()<1, 1>(), true;
    if (sequences == 2) return use.template operator()<1, 2>(), true;
    if (sequences <= 4) return use.template operator()<1, 4>(), true;
    if constexpr (sizeof(Weight) == 2)
      return use.template operator()<1, most_tokens>(), true;
    return false;
  }
  if (pairs <= 3) {
    if (sequences == 1) return use.template operator()<3, 1>(), true;
    if constexpr (sizeof(Weight) == 2)
      if (sequences == 2) return use.template operator()<3, 2>(), true;
    return false;
  }
  return pairs <= most_pairs && sequences == 1 && (use.template operator()<most_pairs, 1>(), true);
}

template <class Weight>
void run(const TokenStep<Weight>& p, const Gpu& gpu) {
  with_variant<Weight>(p.sizes, p.next.count, [&]<int pairs, int N>() {
    const auto blocks = unsigned(gpu.properties().multiprocessors);
    launch_cooperative(token_kernel<Weight, pairs, N>,
                       {blocks, token_threads, size_t(p.shared.bytes)}, gpu, p);
  });
}

}  // namespace

template <class Weight>
std::optional<TokenSharedMemory> token_shared_memory(const LayerSizes& s, int sequences,
                                                     const Gpu& gpu) {
  constexpr int64_t declared = 6800;  // static shared memory
  const int blocks = gpu.properties().multiprocessors;  // all resident: the order of writes needs it
  int64_t mixes = 1;
  for (const bool first : {true, false})
    for (int block = 0; block < blocks; ++block) {
      const InputRows in(s, first);
      mixes = std::max<int64_t>(mixes, in.segments_of(range_of(in.rows(), block, blocks)));
    }
  TokenSharedMemory shared;
  const bool has_kernel = with_variant<Weight>(s, sequences, [&]<int pairs, int N>() {
    static_assert(sizeof(BlockShared<N>) + 128 <= declared);  // with what aligns the ring
    using Vectors = TileVectors<Weight, N>;
    shared.area = std::max<int64_t>(
        {mixes * N * Vectors::stride(int(s.channels)),
         N * Vectors::stride(padded_columns<Weight>(s.feed_forward)), s.low(false) + 3 * head_size});
    shared.own_rows = (s.channels / blocks + 4) / 4 * 4;
    shared.v_first = (s.heads * sequences + blocks - 1) / blocks * head_size;
    shared.bytes =
        depth_of<pairs, N> * tile_bytes + bytes_beside_ring<Weight, N>(s, shared);
  });
  const bool can = has_kernel && (sequences > 1 || s.heads <= blocks) && s.channels >= blocks && s.feed_forward >= blocks &&
                   shared.bytes + declared <= int64_t(gpu.properties().shared_bytes);
  return can ? std::optional(shared) : std::nullopt;
}

template <class Weight>
int64_t token_local_bytes(const LayerSizes& s, int sequences) {
  int64_t bytes = 0;
  with_variant<Weight>(s, sequences, [&]<int pairs, int N>() {
    bytes = local_bytes(token_kernel<Weight, pairs, N>);
  });
  return bytes;
}

template <class Weight>
void decode_tokens(const TokenWeights<Weight>& weights, const LayerSizes& sizes,
                   const TokenSharedMemory& shared, const DecodeSane& sane, const NextTokens& next,
                   float* exchanged, float* logits, const Gpu& gpu) {
  TokenStep<Weight> p{};
  p.weights = weights, p.sizes = sizes, p.shared = shared, p.sane = sane, p.next = next;
  p.logits = logits, p.share = 1.0f / float(sizes.channels);
  for (int n = 0; n < next.count; ++n)
    p.chunk_ends |= uint32_t(ends_chunk(sane, next.position[n])) << n;
  const int64_t count = next.count;
  p.x = exchanged, p.y = p.x + count * sizes.channels, p.first_in = p.y + count * sizes.channels;
  p.other_in = p.first_in + count * sizes.rows_of_in(true);
  p.hidden = p.other_in + count * sizes.rows_of_in(false);
  run(p, gpu);
}

template std::optional<TokenSharedMemory> token_shared_memory<float>(const LayerSizes&, int,
                                                                     const Gpu&);
template std::optional<TokenSharedMemory> token_shared_memory<bf16>(const LayerSizes&, int,
                                                                    const Gpu&);
template int64_t token_local_bytes<float>(const LayerSizes&, int);
template int64_t token_local_bytes<bf16>(const LayerSizes&, int);
template void decode_tokens(const TokenWeights<float>&, const LayerSizes&, const TokenSharedMemory&,
                            const DecodeSane&, const NextTokens&, float*, float*, const Gpu&);
template void decode_tokens(const TokenWeights<bf16>&, const LayerSizes&, const TokenSharedMemory&,
                            const DecodeSane&, const NextTokens&, float*, float*, const Gpu&);

}  // namespace deltasane::rwkv7
