#include "kernel/matmul/few_rows/product.h"

#include "kernel/activation/cuda_sigmoid.cuh"
#include "kernel/cuda/async_copy.cuh"
#include "kernel/matmul/few_rows/few_rows.cuh"
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

// 1 / sqrt(mean x^2 + eps) of each row's heads: `scales` (N, heads). A warp has a head, or, of rows
// that are one head, an eighth of it, whose sums are in `parts` (N, warps).
template <class Weight, int N>
__device__ void find_scales(const FewRowsProduct<Weight>& p, int heads, float* scales, float* parts) {
  const FewRowsInput<Weight>& in = p.input;
  const int warp = int(threadIdx.x) / 32, lane = int(threadIdx.x) % 32;
  const auto row_of = [&](int n) { return in.x + min(int64_t(n), p.rows - 1) * in.step; };
  const auto scale = [&](float squares) {
    return 1.0f / sqrtf(squares / float(in.size) + in.eps);
  };
  if (heads > 1) {
    for (int i = warp; i < N * heads; i += few_warps) {
      const float* const x = row_of(i / heads) + i % heads * in.size;
      float sum = 0;
      for (int64_t c = lane * 4; c < in.size; c += 128) sum += squares_of(four(x + c));
      sum = warp_sum(sum);
      if (lane == 0) scales[i] = scale(sum);
    }
    __syncthreads();
    return;
  }
  float sums[N] = {};
  for (int64_t c = int64_t(threadIdx.x) * 4; c < in.size; c += few_threads * 4)
#pragma unroll
    for (int n = 0; n < N; ++n) sums[n] += squares_of(four(row_of(n) + c));
#pragma unroll
  for (int n = 0; n < N; ++n) {
    const float sum = warp_sum(sums[n]);
    if (lane == 0) parts[n * few_warps + warp] = sum;
  }
  __syncthreads();
  if (threadIdx.x < N) {
    float sum = 0;
    for (int w = 0; w < few_warps; ++w) sum += parts[threadIdx.x * few_warps + w];
    scales[threadIdx.x] = scale(sum);
  }
  __syncthreads();
}

// Of the columns [c, c + 4).
template <class Weight>
__device__ float4 inputs_at(const FewRowsProduct<Weight>& p, int heads, const float* scales, int n,
                            int64_t c) {
  using Kind = typename FewRowsInput<Weight>::Kind;
  const FewRowsInput<Weight>& in = p.input;
  const int64_t row = min(int64_t(n), p.rows - 1), at = row * in.step + c;
  switch (in.kind) {
    case Kind::plain:
      break;
    case Kind::norm:
      return scaled(four(in.x + at), four(in.weight + c), scales[n]);
    case Kind::head_norm: {
      const int head = int(c) / int(in.size), inside = int(c) % int(in.size);
      const float4 value =
          scaled(four(in.x + at), four(in.weight + inside), scales[n * heads + head]);
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
      return scaled(activated(GateActivation::silu, four(in.x + at)),
                    four(in.x + at + p.columns));
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

// N rows of inputs at most, R rows of weights per warp at a time. The last `keepers` blocks have no
// weights: they keep the inputs of a convolution, beside the others.
template <class Weight, int N, int R>
__global__ void __launch_bounds__(few_threads)
    multiply_staged(const __grid_constant__ FewRowsProduct<Weight> p,
                    const __grid_constant__ FewRowsMatrix<Weight> matrix, int heads, int keepers) {
  extern __shared__ float4 dynamic_shared[];  // inputs (N, staged), scales (N, heads), parts
  float* const input = reinterpret_cast<float*>(dynamic_shared);
  float* const scales = input + N * matrix.staged;
  const int64_t blocks = int64_t(gridDim.x) - keepers;
  trigger_dependent_launch();
  if (blockIdx.x >= blocks) {
    grid_dependency_synchronize();
    return keep_inputs(p.kept, p.rows, blockIdx.x - blocks, keepers);
  }
  RegisterTile<Weight, R> tile;
  tile.load(matrix, tile.row_of(blockIdx.x), 0);
  if (p.input.weight)
    for (int64_t i = threadIdx.x * 32; i + 32 <= p.input.size; i += few_threads * 32)
      prefetch_l2_line(p.input.weight + i);
  grid_dependency_synchronize();

  if (heads > 0) find_scales<Weight, N>(p, heads, scales, scales + N * heads);
  multiply_few_rows<Weight, N>(
      matrix, tile, input, blocks, [](int64_t) { return 0; },
      [&](int64_t from, int) {
        stage_fours<Weight, N>(matrix, from, input, [&](int n, int64_t c) {
          return inputs_at(p, heads, scales, n, c);
        });
      },
      [&](int n, int64_t row, int, float sum) {
        if (n >= p.rows) return;
        const int64_t at = n * p.outputs + row;
        if (p.narrow_out)
          store_one(p.narrow_out + at, sum);
        else
          p.out[at] = p.add ? p.out[at] + sum : sum;
      });
}

}  // namespace

template <class Weight>
void few_rows_product(const FewRowsProduct<Weight>& op, const Gpu& gpu) {
  using Kind = typename FewRowsInput<Weight>::Kind;
  require(op.input.kind != Kind::head_norm || op.input.size % 4 == 0,
          "few_rows_product: expected heads of a multiple of four channels");
  require(has_few_rows_product<Weight>(op.columns) && (op.out != nullptr) != (op.narrow_out != nullptr),
          "few_rows_product: expected columns of 16 bytes, and one result");
  FewRowsMatrix<Weight> matrix{op.matrix, op.outputs, op.columns, 0};
  FewRowsProduct<Weight> p = op;
  const int64_t kept = op.kept.x && op.kept.taps > 1 ? op.rows * op.kept.channels : 0;
  const auto keepers = int((kept + few_threads - 1) / few_threads);
  if (op.input.kind == Kind::norm) p.input.size = op.columns;
  const bool has_norm = op.input.kind == Kind::norm || op.input.kind == Kind::head_norm;
  const int heads = has_norm ? int(op.columns / p.input.size) : 0;  // of a row
  with_few(op.rows, [&]<int N>() {
    with_rows_per_warp<Weight, N>(
        matrix, gpu.properties().multiprocessors, 2, [&]<int R>(unsigned blocks) {
          const int64_t floats = N * (matrix.staged + heads + few_warps);
          launch_dependent(multiply_staged<Weight, N, R>,
                           {dim3(blocks + unsigned(keepers)), few_threads,
                            size_t(floats) * sizeof(float)},
                           gpu, p, matrix, heads, keepers);
        });
  });
}

template void few_rows_product(const FewRowsProduct<float>&, const Gpu&);
template void few_rows_product(const FewRowsProduct<bf16>&, const Gpu&);

}  // namespace deltasane::kernel::cuda
