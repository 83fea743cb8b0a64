#include "model/rwkv7/decode/batch.h"

#include "kernel/norm/cuda_moments.cuh"
#include "model/rwkv7/decode/head_step.cuh"
#include "tensor/cuda/launch.h"

namespace deltasane::rwkv7 {
namespace {

// A block per sequence. All loads are issued at once: nothing else hides their latency. Those of what
// the kernel before does not write are issued while that one ends.
template <class Real, int mixes, int most_threads>
__global__ void __launch_bounds__(most_threads)
    shift_states_kernel(const __grid_constant__ ShiftStates<Real> op) {
  trigger_dependent_launch();
  __shared__ float place[2][32];
  BlockSums<1> sums{place};
  const int channels = int(op.channels), c = int(threadIdx.x) * octet;
  const bool mine = c < channels;
  const int64_t at = blockIdx.x * op.channels + c;
  float* const shift = op.states[blockIdx.x] + op.shift_at + c;
  float u[1][octet] = {}, before[octet], weight[octet], bias[octet], mu[mixes][octet];
  if (mine) {
    load(op.weight + c, weight), load(op.bias + c, bias), load(shift, before);
#pragma unroll
    for (int m = 0; m < mixes; ++m) load(op.mu[m] + c, mu[m]);
  }
  grid_dependency_synchronize();
  if (mine) {
    constexpr int most = ShiftStates<Real>::most_parts;
    float parts[most][octet];
#pragma unroll
    for (int p = 0; p < most; ++p)
      if (p < op.added) load(op.parts + p * op.sequences * op.channels + at, parts[p]);
    load(op.x + at, u[0]);
    if (op.added > 0) {
#pragma unroll
      for (int p = 0; p < most; ++p)
#pragma unroll
        for (int i = 0; i < octet; ++i)
          if (p < op.added) u[0][i] += parts[p][i];
      store(op.x + at, u[0]);
    }
  }
  Moments of[1];
  moments_of(u, mine, channels, op.eps, sums, of);
  if (!mine) return;
#pragma unroll
  for (int i = 0; i < octet; ++i) {
    u[0][i] = normalized(u[0][i], of[0], weight[i], bias[i]);
    before[i] -= u[0][i];
  }
  store(shift, u[0]);
#pragma unroll
  for (int m = 0; m < mixes; ++m) {
#pragma unroll
    for (int i = 0; i < octet; ++i) mu[m][i] = __fmaf_rn(before[i], mu[m][i], u[0][i]);
    store(op.out[m] + at, mu[m]);
  }
}

constexpr int lanes = 4, step_threads = head_threads<lanes>;

// Element i of a sequence's vector of down projections, as the up projections read it.
template <class Real>
__device__ float low_at(const StepHeads<Real>& op, const HeadRanks& ranks, int64_t sequence,
                        int i) {
  const int begin = i < ranks.a ? 0 : i < ranks.v ? ranks.a : i < ranks.g ? ranks.v : ranks.g;
  const int end = i < ranks.a ? ranks.a : i < ranks.v ? ranks.v : i < ranks.g ? ranks.g : ranks.low;
  const float x = to_float(op.low[begin * op.sequences + sequence * (end - begin) + (i - begin)]);
  return apply(i < ranks.a ? Epilogue::tanh : i < ranks.g ? Epilogue::none : Epilogue::sigmoid, x);
}

// Whether SANE follows the sequence's token.
template <class Op>
__device__ bool sane_follows(const Op& op, int64_t sequence) {
  return op.tau && (op.positions[sequence] + 1) % op.chunk == 0;
}

// A block per (head, sequence).
template <class Real>
__global__ void __launch_bounds__(step_threads)
    step_states_kernel(const __grid_constant__ StepStates<Real> op) {
  alignas(16) __shared__ HeadInputs in;
  const int64_t head = blockIdx.x, sequence = blockIdx.y;
  float* const memory = op.states[sequence] + op.memory_at + head * head_size * head_size;
  HeadRow<lanes> s;
  s.load(memory);
  const int64_t first = (sequence * op.heads + head) * head_size;
  if (threadIdx.x < head_size) {
    const int64_t c = first + threadIdx.x;
    in.r[threadIdx.x] = to_float(op.r[c]), in.w[threadIdx.x] = op.w[c];
    in.k[threadIdx.x] = to_float(op.k[c]), in.v[threadIdx.x] = to_float(op.v[c]);
    in.a[threadIdx.x] = to_float(op.a[c]), in.b[threadIdx.x] = to_float(op.b[c]);
  }
  __syncthreads();
  const float tau = sane_follows(op, sequence) ? op.tau[sequence * op.heads + head] : 0.0f;
  const float y = step_head(s, in, tau);
  s.store(memory);
  if (threadIdx.x % lanes == 0) store_one(op.y + first + threadIdx.x / lanes, y);
}

// What the thread's role has of the up projections; at: the first channel of the head.
template <class Real>
__device__ float up_projection_at(const UpProjections<Real>& up, bool has_v, int64_t at) {
  const int64_t c = at + threadIdx.x / lanes;
  const HeadRole role = role_of_thread<lanes>();
  if (role == role_w) return up.w[c];
  if (role == role_v && !has_v) return 0;
  return to_float(role == role_a ? up.a[c] : role == role_v ? up.gate[c] : up.g[c]);
}

// A block per (head, sequence).
template <class Real, bool has_up>
__global__ void __launch_bounds__(step_threads, has_up ? 4 : 1)
    step_heads_kernel(const __grid_constant__ StepHeads<Real> op, HeadRanks ranks,
                      int64_t memory_at) {
  constexpr int kept = has_up ? 0 : 10;  // all of a 0.4B model's in bf16
  alignas(16) __shared__ float low[has_up ? 4 : StepHeads<Real>::most_low];
  alignas(16) __shared__ HeadShared place;
  __shared__ float raw[4][head_size];  // r k v, and v of the first layer
  const int64_t head = blockIdx.x, sequence = blockIdx.y, channels = op.sizes.channels;
  const int64_t at = sequence * channels + head * head_size;
  float* const memory = op.states[sequence] + memory_at + head * head_size * head_size;
  HeadPrefetch<Real, lanes, kept> early;
  trigger_dependent_launch();
  early.load(op.weights, ranks, head, memory);
  const bool ends = sane_follows(op, sequence);
  grid_dependency_synchronize();
  static_assert(step_threads == 4 * head_size);
  if (const int which = int(threadIdx.x) / head_size; which < 3 || ranks.has_v()) {
    const int64_t c = at + threadIdx.x % head_size;
    raw[which][threadIdx.x % head_size] =
        to_float(which < 3 ? op.rkv[which * op.sequences * channels + c] : op.v_first[c]);
  }
  float projected = 0;
  if constexpr (has_up)
    projected = up_projection_at(op.up, ranks.has_v(), at);
  else
    for (int i = threadIdx.x; i < ranks.low; i += step_threads)
      low[i] = low_at(op, ranks, sequence, i);
  const float tau = ends ? op.tau[sequence * op.sizes.heads + head] : 0.0f;
  __syncthreads();
  const auto up = [&] {
    return has_up ? projected : up_projection(early, op.weights, ranks, head, low);
  };
  make_inputs(early, ranks, {raw[0], raw[1], raw[2]}, up, raw[3], place);
  if (!ranks.has_v() && threadIdx.x < head_size)
    store_one(op.v_first + at + threadIdx.x, place.in.v[threadIdx.x]);
  const float y = finish_head(early, tau, op.group_norm_eps, place);
  early.s.store(memory);
  if (threadIdx.x < head_size) store_one(op.y + at + threadIdx.x, y);
}

// For kernels with a block per (head, sequence).
Grid grid_of(int64_t heads, int64_t sequences) {
  return {dim3(unsigned(heads), unsigned(sequences)), step_threads};
}

}  // namespace

template <class Real>
void shift_states(const ShiftStates<Real>& op, const Gpu& gpu) {
  require_aligned(op.x, op.weight, op.bias);
  for (int m = 0; m < op.mixes; ++m) require_aligned(op.mu[m], op.out[m]);
  require_aligned(op.parts);
  require(op.added <= ShiftStates<Real>::most_parts, "at most four sums are added");
  const unsigned threads = threads_of_row(op.channels);
  const auto run = [&]<int mixes>() {
    launch_dependent(threads <= 512 ? shift_states_kernel<Real, mixes, 512>
                                    : shift_states_kernel<Real, mixes, 1024>,
                     {unsigned(op.sequences), threads}, gpu, op);
  };
  require(op.mixes == 1 || op.mixes == 6 || op.mixes == 7, "mixes of a token: 1, 6 or 7");
  if (op.mixes == 1)
    run.template operator()<1>();
  else if (op.mixes == 6)
    run.template operator()<6>();
  else
    run.template operator()<7>();
}

template <class Real>
void step_states(const StepStates<Real>& op, const Gpu& gpu) {
  launch(step_states_kernel<Real>, grid_of(op.heads, op.sequences), gpu, op);
}

template <class Real>
void step_heads(const StepHeads<Real>& op, const Gpu& gpu) {
  const HeadRanks ranks(op.sizes, op.layer == 0);
  require(op.up.w || ranks.low <= StepHeads<Real>::most_low, "the ranks fit into shared memory");
  const auto kernel = op.up.w ? step_heads_kernel<Real, true> : step_heads_kernel<Real, false>;
  const Grid grid = grid_of(op.sizes.heads, op.sequences);
  const int64_t at = op.sizes.memory_at(op.layer);
  if (!op.up.w) return launch(kernel, grid, gpu, op, ranks, at);  // overlapped, it takes longer
  prefer_shared_carveout(kernel);
  launch_dependent(kernel, grid, gpu, op, ranks, at);
}

template void shift_states(const ShiftStates<float>&, const Gpu&);
template void shift_states(const ShiftStates<bf16>&, const Gpu&);
template void step_states(const StepStates<float>&, const Gpu&);
template void step_states(const StepStates<bf16>&, const Gpu&);
template void step_heads(const StepHeads<float>&, const Gpu&);
template void step_heads(const StepHeads<bf16>&, const Gpu&);

}  // namespace deltasane::rwkv7
