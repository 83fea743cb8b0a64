#include "kernel/matmul/few_rows/product.h"

#include "kernel/activation/cuda_sigmoid.cuh"
#include "kernel/matmul/few_rows/weight_ring.cuh"
#include "tensor/cuda/launch.h"

namespace deltasane::kernel::cuda {
namespace {

static_assert(most_rows_of_few == most_few_rows);

__device__ float activated(GateActivation activation, float gate) {
  const float s = sigmoid(gate);
  return activation == GateActivation::silu ? gate * s : s;
}

// Four neighbours; at once where their address allows it.
__device__ float4 four(const float* at) {
  if (reinterpret_cast<uintptr_t>(at) % 16 == 0) return *reinterpret_cast<const float4*>(at);
  return make_float4(at[0], at[1], at[2], at[3]);
}
__device__ float4 four(const bf16* at) {
  if (reinterpret_cast<uintptr_t>(at) % 8 != 0)
    return make_float4(to_float(at[0]), to_float(at[1]), to_float(at[2]), to_float(at[3]));
  const uint2 raw = *reinterpret_cast<const uint2*>(at);
  return make_float4(__uint_as_float(raw.x << 16), __uint_as_float(raw.x & 0xffff0000u),
                     __uint_as_float(raw.y << 16), __uint_as_float(raw.y & 0xffff0000u));
}
__device__ float4 scaled(float4 a, float4 b, float scale = 1) {
  return make_float4(a.x * b.x * scale, a.y * b.y * scale, a.z * b.z * scale, a.w * b.w * scale);
}
__device__ float4 activated(GateActivation activation, float4 gate) {
  return make_float4(activated(activation, gate.x), activated(activation, gate.y),
                     activated(activation, gate.z), activated(activation, gate.w));
}
__device__ float squares_of(float4 x) { return x.x * x.x + x.y * x.y + (x.z * x.z + x.w * x.w); }

// When a norm's scale is found: never; before its columns are staged; by the lanes that stage a head;
// beside staging, as a factor of the product.
enum class Scale { never, before, with_head, after };

// Whether a power of two of a warp's lanes stages each head.
bool lanes_have_heads(int64_t size, int64_t columns) {
  return (size == 32 || size == 64 || size == 128) && columns % 128 == 0;
}

template <class Weight>
__device__ float scale_of(const FewRowsInput<Weight>& in, float squares) {
  return 1.0f / sqrtf(squares / float(in.size) + in.eps);
}

// Sums over the block's threads, in two steps: `parts` (N, warps).
template <int N>
__device__ void store_parts(const float (&sums)[N], float* parts) {
#pragma unroll
  for (int n = 0; n < N; ++n) {
    const float sum = warp_sum(sums[n]);
    if (threadIdx.x % 32 == 0) parts[n * few_warps + threadIdx.x / 32] = sum;
  }
}
__device__ float sum_of_parts(const float* parts, int n) {
  float sum = 0;
#pragma unroll
  for (int w = 0; w < few_warps; ++w) sum += parts[n * few_warps + w];
  return sum;
}

// 1 / sqrt(mean x^2 + eps) of each row's heads: `scales` (N, heads). A warp has a head, or, of rows
// that are one head, an eighth of it, whose sums are in `parts` (N, warps).
template <class Weight, int N>
__device__ void find_scales(const FewRowsProduct<Weight>& p, int heads, float* scales,
                            float* parts) {
  const FewRowsInput<Weight>& in = p.input;
  const int warp = int(threadIdx.x) / 32, lane = int(threadIdx.x) % 32;
  const auto row_of = [&](int n) { return in.x + min(int64_t(n), p.rows - 1) * in.step; };
  if (heads > 1) {
    for (int i = warp; i < N * heads; i += few_warps) {
      const float* const x = row_of(i / heads) + i % heads * in.size;
      float sum = 0;
      for (int64_t c = lane * 4; c < in.size; c += 128) sum += squares_of(four(x + c));
      sum = warp_sum(sum);
      if (lane == 0) scales[i] = scale_of(in, sum);
    }
    __syncthreads();
    return;
  }
  float sums[N] = {};
  for (int64_t c = int64_t(threadIdx.x) * 4; c < in.size; c += few_threads * 4)
#pragma unroll
    for (int n = 0; n < N; ++n) sums[n] += squares_of(four(row_of(n) + c));
  store_parts(sums, parts);
  __syncthreads();
  if (threadIdx.x < N) scales[threadIdx.x] = scale_of(in, sum_of_parts(parts, int(threadIdx.x)));
  __syncthreads();
}

// Of the columns [c, c + 4). `squares`: theirs are added, where the scale comes after.
template <class Weight>
__device__ float4 inputs_at(const FewRowsProduct<Weight>& p, Scale when, int heads,
                            const float* scales, int n, int64_t c, float& squares) {
  using Kind = typename FewRowsInput<Weight>::Kind;
  const FewRowsInput<Weight>& in = p.input;
  const int64_t row = min(int64_t(n), p.rows - 1), at = row * in.step + c;
  switch (in.kind) {
    case Kind::plain:
      break;
    case Kind::norm: {
      const float4 x = four(in.x + at), weight = four(in.weight + c);
      if (when == Scale::before) return scaled(x, weight, scales[n]);
      squares += squares_of(x);
      return scaled(x, weight);
    }
    case Kind::head_norm: {
      const int head = int(c) / int(in.size), inside = int(c) % int(in.size);
      const float4 x = four(in.x + at);
      float scale = 0;
      if (when == Scale::with_head) {
        float sum = squares_of(x);
        for (int far = 1; far < int(in.size) / 4; far *= 2) sum += __shfl_xor_sync(~0u, sum, far);
        scale = scale_of(in, sum);
      } else {
        scale = scales[n * heads + head];
      }
      const float4 value = scaled(x, four(in.weight + inside), scale);
      if (!in.gate) return value;
      float4 gate = four(in.gate + row * in.gate_step + c);
      if (in.gate_bias) {
        const float4 bias = four(in.gate_bias + c);
        gate = make_float4(gate.x + bias.x, gate.y + bias.y, gate.z + bias.z, gate.w + bias.w);
      }
      return scaled(value, activated(in.activation, gate));
    }
    case Kind::gated: {
      const float4 x = four(in.narrow_x + at);
      if (!in.narrow_gate) return x;
      return scaled(x, activated(in.activation, four(in.narrow_gate + row * in.gate_step + c)));
    }
    case Kind::swiglu:
      return scaled(activated(GateActivation::silu, four(in.x + at)), four(in.x + at + p.columns));
  }
  return four(in.x + at);
}

// What a token's place gets comes from a later place or from x: in order, nothing is lost.
__device__ void keep_inputs(const KeptInputs& kept, int64_t rows, int64_t block, int64_t blocks) {
  const int64_t all = rows * kept.channels;
  for (int64_t i = block * few_threads + threadIdx.x; i < all; i += blocks * few_threads) {
    const int64_t row = i / kept.channels, c = i % kept.channels;
    float* const place = kept.states[row] + kept.state_at + c;
    for (int64_t j = 0; j + 2 < kept.taps; ++j)
      place[j * kept.channels] = place[(j + 1) * kept.channels];
    place[(kept.taps - 2) * kept.channels] = kept.x[row * kept.step + c];
  }
}

// A thread's columns of a piece of N inputs: in registers where they are few, as all rows of a narrow
// matrix read the same; else in shared memory.
template <class Weight, int N>
class PieceInputs {
 public:
  __device__ void set(const float* input, int64_t staged) {
    shared_ = input + int(threadIdx.x) % 32 * 4, staged_ = staged;
    if constexpr (kept)
#pragma unroll
      for (int n = 0; n < N; ++n)
#pragma unroll
        for (int i = 0; i < fours; ++i) x_[n][i] = load(n, i);
  }
  // The number `i` of four columns.
  __device__ float4 four(int n, int i) const {
    if constexpr (kept)
      return x_[n][i];
    else
      return load(n, i);
  }

 private:
  static constexpr bool kept = N <= 2;
  static constexpr int fours = WeightRing<Weight>::piece_columns / 128;

  __device__ float4 load(int n, int i) const {
    return *reinterpret_cast<const float4*>(shared_ + n * staged_ + i * 128);
  }
  const float* shared_ = nullptr;
  int64_t staged_ = 0;
  float4 x_[kept ? N : 1][kept ? fours : 1];
};

// N rows of inputs at most. A warp has a row of weights at a time, and finishes the sums of four
// together. The last `keepers` blocks have no weights: they keep the inputs of a convolution, beside
// the others.
template <class Weight, int N>
__global__ void __launch_bounds__(few_threads, N == 1 ? 3 : 2)
    multiply_staged(const __grid_constant__ FewRowsProduct<Weight> p,
                    const __grid_constant__ FewRowsMatrix<Weight> matrix, Scale when, int heads,
                    int keepers, int places) {
  using Ring = WeightRing<Weight>;
  constexpr int together = 4, V = weights_per_load<Weight>;
  extern __shared__ float4 dynamic_shared[];  // weights, inputs (N, staged), scales (N, heads), parts
  const int64_t blocks = int64_t(gridDim.x) - keepers;
  trigger_dependent_launch();
  if (blockIdx.x >= blocks) {
    grid_dependency_synchronize();
    return keep_inputs(p.kept, p.rows, blockIdx.x - blocks, keepers);
  }
  uint4* const weights = reinterpret_cast<uint4*>(dynamic_shared);
  float* const input = reinterpret_cast<float*>(weights + places * Ring::piece_step);
  float* const scales = input + N * matrix.staged;
  float* const parts = scales + N * heads;
  Ring ring(matrix, blocks, places, weights);
  if (p.input.weight)
    for (int64_t i = threadIdx.x * 32; i + 32 <= p.input.size; i += few_threads * 32)
      prefetch_l2_line(p.input.weight + i);
  grid_dependency_synchronize();

  if (when == Scale::before) find_scales<Weight, N>(p, heads, scales, parts);
  int staged_from = -int(matrix.staged), set_from = -1;  // none yet
  const auto stage = [&](int from) {
    __syncthreads();
    float squares[N] = {};
    stage_fours<Weight, N>(matrix, from, input, [&](int n, int64_t c) {
      return inputs_at(p, when, heads, scales, n, c, squares[n]);
    });
    if (when == Scale::after) store_parts(squares, parts);
    __syncthreads();
    staged_from = from, set_from = -1;
  };
  const int warp = int(threadIdx.x) / 32, lane = int(threadIdx.x) % 32;
  const int rows = int(matrix.rows), columns = int(matrix.columns), step = int(blocks) * few_warps;
  PieceInputs<Weight, N> own;
#pragma unroll 1
  for (int first = int(blockIdx.x) * few_warps; first < rows; first += together * step) {
    const int row = first + lane / 8 * step + warp;  // that the lane stores
    const bool stores = lane % 8 == 0 && row < rows;
    float sums[N][together] = {}, before[N] = {};
#pragma unroll
    for (int n = 0; n < N; ++n)
      if (p.add && stores && n < p.rows) before[n] = p.out[n * p.outputs + row];
#pragma unroll 1
    for (int j = 0; j < together; ++j) {
      float sum[N] = {};
#pragma unroll 1
      for (int from = 0; first + j * step < rows && from < columns; from += Ring::piece_columns) {
        if (from < staged_from || from >= staged_from + matrix.staged) stage(from);
        if (first + j * step + warp >= rows) continue;
        if (from != set_from) own.set(input + (from - staged_from), matrix.staged), set_from = from;
        ring.take([&](int u, const uint4& raw) {
          float w[V];
          unpack(raw, w, Weight());
#pragma unroll
          for (int n = 0; n < N; ++n)
#pragma unroll
            for (int v = 0; v < V; v += 4) {
              const float4 x = own.four(n, (u * V + v) / 4);
              sum[n] += w[v] * x.x + w[v + 1] * x.y + w[v + 2] * x.z + w[v + 3] * x.w;
            }
        });
      }
      // They move on: a number that is not known here would put them into memory.
#pragma unroll
      for (int n = 0; n < N; ++n) {
#pragma unroll
        for (int i = 0; i + 1 < together; ++i) sums[n][i] = sums[n][i + 1];
        sums[n][together - 1] = sum[n];
      }
    }
#pragma unroll
    for (int n = 0; n < N; ++n) {
      float sum = head_sum(reduce_scatter<together, 16>(sums[n]));
      if (!stores || n >= p.rows) continue;
      if (when == Scale::after) sum *= scale_of(p.input, sum_of_parts(parts, n));
      const int64_t at = n * p.outputs + row;
      if (p.narrow_out)
        store_one(p.narrow_out + at, sum);
      else
        p.out[at] = before[n] + sum;
    }
  }
}

}  // namespace

template <class Weight>
void few_rows_product(const FewRowsProduct<Weight>& op, const Gpu& gpu) {
  using Kind = typename FewRowsInput<Weight>::Kind;
  require(op.input.kind != Kind::head_norm || op.input.size % 4 == 0,
          "few_rows_product: expected heads of a multiple of four channels");
  require(
      has_few_rows_product<Weight>(op.columns) && (op.out != nullptr) != (op.narrow_out != nullptr),
      "few_rows_product: expected columns of 16 bytes, and one result");
  FewRowsMatrix<Weight> matrix{op.matrix, op.outputs, op.columns, 0};
  FewRowsProduct<Weight> p = op;
  const int64_t kept = op.kept.x && op.kept.taps > 1 ? op.rows * op.kept.channels : 0;
  const auto keepers = int((kept + few_threads - 1) / few_threads);
  if (op.input.kind == Kind::norm) p.input.size = op.columns;
  const bool has_norm = op.input.kind == Kind::norm || op.input.kind == Kind::head_norm;
  const int heads = has_norm ? int(op.columns / p.input.size) : 0;  // of a row
  with_few(op.rows, [&]<int N>() {
    using Ring = WeightRing<Weight>;
    constexpr int64_t most_staged = staged_floats / N / Ring::piece_columns * Ring::piece_columns;
    const int64_t pieces = Ring::pieces_of(op.columns);
    matrix.staged = std::min(pieces * Ring::piece_columns, most_staged);
    const int64_t groups = (op.outputs + few_warps - 1) / few_warps;
    const int64_t blocks = std::min<int64_t>(groups, gpu.properties().multiprocessors);
    Scale when = has_norm ? Scale::before : Scale::never;
    if (op.input.kind == Kind::norm && matrix.staged >= op.columns) when = Scale::after;
    if (op.input.kind == Kind::head_norm && lanes_have_heads(op.input.size, op.columns))
      when = Scale::with_head;
    const uint64_t inputs = uint64_t(N * (matrix.staged + heads + few_warps)) * sizeof(float);
    const int places = Ring::places((groups + blocks - 1) / blocks * pieces,
                                    gpu.properties().shared_bytes - inputs);
    prefer_shared_carveout(multiply_staged<Weight, N>);
    launch_dependent(multiply_staged<Weight, N>,
                     {dim3(unsigned(blocks + keepers)), few_threads,
                      Ring::bytes(places) + inputs},
                     gpu, p, matrix, when, heads, keepers, places);
  });
}

template void few_rows_product(const FewRowsProduct<float>&, const Gpu&);
template void few_rows_product(const FewRowsProduct<bf16>&, const Gpu&);

}  // namespace deltasane::kernel::cuda
