#include "kernel/cuda_block_sum.cuh"
#include "kernel/rwkv7/cuda_head.cuh"
#include "kernel/rwkv7/cuda_states.h"
#include "tensor/cuda/launch.h"

namespace deltasane::kernel::cuda {
namespace {

enum class Direction { gather, scatter };

// A block per (row of a state's shift, sequence).
template <Direction direction>
__global__ void move_shifts(Shifts op) {
  float* const in_state = op.states[blockIdx.y] + int64_t(blockIdx.x) * op.channels;
  float* const in_batch =
      op.shifts + (int64_t(blockIdx.x) * op.sequences + blockIdx.y) * op.channels;
  for (int64_t c = threadIdx.x; c < op.channels; c += blockDim.x) {
    if (direction == Direction::gather)
      in_batch[c] = in_state[c];
    else
      in_state[c] = in_batch[c];
  }
}

constexpr int lanes = 4;  // per row of a state

// A block per (head, sequence).
template <class Real>
__global__ void __launch_bounds__(head_threads<lanes>) step_states_kernel(StatesStep<Real> op) {
  __shared__ __align__(16) HeadInputs in;
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
  const bool ends = op.tau && (op.positions[sequence] + 1) % op.chunk == 0;
  const float y = step_head(s, in, ends ? op.tau[sequence * op.heads + head] : 0.0f);
  s.store(memory);
  if (threadIdx.x % lanes == 0) put(op.y + first + threadIdx.x / lanes, y);
}

__global__ void largest_kernel(const float* values, int64_t count, int32_t* largest) {
  int32_t found = 0;
  const int64_t step = int64_t(gridDim.x) * blockDim.x;
  for (int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += step)
    found = max(found, __float_as_int(values[i]) & 0x7fffffff);
  for (int apart = 16; apart > 0; apart /= 2)
    found = max(found, __shfl_xor_sync(~0u, found, apart));
  if (threadIdx.x % 32 == 0) atomicMax(largest, found);
}

constexpr int square_threads = 256;

// By a block, once; its first thread gets it.
__device__ double sum_of_squares(const float* values, int64_t size) {
  double sum = 0;
  for (int64_t i = threadIdx.x; i < size; i += square_threads)
    sum += double(values[i]) * double(values[i]);
  return block_sum(sum);
}

// A block per sum.
__global__ void __launch_bounds__(square_threads)
    squares_kernel(const float* values, int64_t size, double* squares) {
  const double sum = sum_of_squares(values + int64_t(blockIdx.x) * size, size);
  if (threadIdx.x == 0) squares[blockIdx.x] = sum;
}

// A block per (head, sequence).
__global__ void __launch_bounds__(square_threads) follow_heads_kernel(FollowHeads op) {
  constexpr int64_t matrix = head_size * head_size;
  const int64_t head = blockIdx.x, sequence = blockIdx.y;
  const double norm =
      sqrt(sum_of_squares(op.memory + (sequence * op.heads + head) * matrix, matrix));
  if (threadIdx.x != 0) return;
  const int64_t at = (sequence * op.layers + op.layer) * op.heads + head;
  if (op.look == FollowHeads::Look::first) {
    op.references[at] = norm;
    op.alphas[at] = float(op.highest);
    return;
  }
  const double now = op.alphas[at], reference = op.references[at];
  if (norm > op.too_large * reference)
    op.alphas[at] = float(fmax(op.lowest, now * op.factor));
  else if (norm < op.small_again * reference)
    op.alphas[at] = float(fmin(op.highest, now / op.factor));
}

__global__ void fill_kernel(float* values, int64_t count, float value) {
  const int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < count) values[i] = value;
}

dim3 grid_of(int64_t x, int64_t y) { return dim3(unsigned(x), unsigned(y)); }

}  // namespace

void gather_shifts(const Shifts& op, const Gpu& gpu) {
  launch(move_shifts<Direction::gather>, {grid_of(2 * op.layers, op.sequences), 256}, gpu, op);
}
void scatter_shifts(const Shifts& op, const Gpu& gpu) {
  launch(move_shifts<Direction::scatter>, {grid_of(2 * op.layers, op.sequences), 256}, gpu, op);
}

template <class Real>
void step_states(const StatesStep<Real>& op, const Gpu& gpu) {
  launch(step_states_kernel<Real>, {grid_of(op.heads, op.sequences), head_threads<lanes>}, gpu, op);
}
template void step_states(const StatesStep<float>&, const Gpu&);
template void step_states(const StatesStep<bf16>&, const Gpu&);

void largest_magnitude(const float* values, int64_t count, int32_t* largest, const Gpu& gpu) {
  zero_on_gpu(largest, sizeof(int32_t), gpu);
  if (count == 0) return;
  const int64_t wanted = (count + 1023) / 1024;
  const int64_t most = 4 * gpu.facts().multiprocessors;
  launch(largest_kernel, {dim3(unsigned(wanted < most ? wanted : most)), 256}, gpu, values, count,
         largest);
}

void sums_of_squares(const float* values, int64_t count, int64_t size, double* squares,
                     const Gpu& gpu) {
  if (count == 0) return;
  launch(squares_kernel, {dim3(unsigned(count)), square_threads}, gpu, values, size, squares);
}

void follow_heads(const FollowHeads& op, const Gpu& gpu) {
  launch(follow_heads_kernel, {grid_of(op.heads, op.sequences), square_threads}, gpu, op);
}

void fill(float* values, int64_t count, float value, const Gpu& gpu) {
  if (count == 0) return;
  launch(fill_kernel, {dim3(unsigned((count + 255) / 256)), 256}, gpu, values, count, value);
}

}  // namespace deltasane::kernel::cuda
