// The gradients of a tile, given its first state S0 and the gradient G of its last one: a block per
// tile, all tiles at once.
//
// In the names of cuda_chunks.cu, with D = G diag(W), the gradient of S0 + SA' B~ + V' K~:
//
//     Z   = (I - AB)^-T (RB' dY + B~ D')                     the gradient of A~ S0' + AK V
//     dV  = AK' Z + RK' dY + K~ D'
//     ZSA ZV over YSA YV: the lower parts of (Z, dY) (SA, V)', those of Z without the diagonal
//     dA~ = Z S0  + ZSA B~ + ZV K~                           dR~ = dY S0 + YSA B~ + YV K~
//     dB~ = SA D  + ZSA' A~ + YSA' R~                        dK~ = V D   + ZV' A~ + YV' R~
//
// The gradient of log w_t is the sum over t' >= t of those of log W_t', where a~_t has W_t-1, r~_t
// has W_t, b~_t and k~_t have 1 / W_t, and the last state has the last W:
//
//     dlog w_t = sum_i (D S0)_i + sum_s (SA D)_s b~_s + (V D)_s k~_s
//              + sum_s>=t dr~_s r~_s - dB~_s b~_s - dK~_s k~_s + sum_s>t da~_s a~_s
//
// all per key channel.
#include <cuda_pipeline.h>

#include <type_traits>

#include "kernel/delta_rule/cuda_operands.cuh"
#include "tensor/cuda/launch.h"

namespace deltasane::kernel::cuda {
namespace {

constexpr int threads = 256, warps = threads / 32, pair_rows = 2 * tile_tokens;
// Rows of floats, so that tokens four apart lie in different banks.
constexpr int padded = head_size + 4;

template <int planes, int exact>
struct GradientMemory {
  template <int of_planes, int rows>
  using Vectors = SplitMatrix<of_planes, rows, head_size, Rows::woven>;
  Vectors<planes, pair_rows> reads;   // A~ over R~
  Vectors<planes, pair_rows> writes;  // B~ over K~
  Vectors<planes, tile_tokens> sa, z;
  Vectors<exact, tile_tokens> v, dy;
  union {
    Vectors<planes, head_size> first;  // S0
    struct {                           // when S0 is not needed any more: what dlog w is added up of
      float of_a[tile_tokens][padded], of_r[tile_tokens][padded], of_writes[tile_tokens][padded];
    } log_w;
  };
  Vectors<planes, head_size> last;                  // D
  SplitMatrix<planes, pair_rows, pair_rows> lower;  // AB AK over RB RK
  union {
    SplitMatrix<planes, pair_rows, pair_rows> pairs;          // (Z, dY) (SA, V)', lower
    struct {                                                  // before there are pairs
      SplitMatrix<planes, tile_tokens, tile_tokens> inverse;  // (I - AB)^-1
      float ab[tile_tokens][tile_tokens + 4];
      float state_sums[warps][head_size];  // of D S0, in parts
    } early;
  };
  float decays[tile_tokens][padded];  // W
  float write_sums[head_size];        // of SA D b~ and V D k~
};

__device__ void store_two(float* to, float x, float y) { *reinterpret_cast<float2*>(to) = {x, y}; }
__device__ void store_two(bf16* to, float x, float y) {
  *reinterpret_cast<__nv_bfloat162*>(to) = __floats2bfloat162_rn(x, y);
}

template <class Real>
__global__ __launch_bounds__(threads, exact_planes<Real> == 1
                                          ? 3
                                          : 1) void gradients_kernel(ReversePass<Real> pass) {
  constexpr int planes = result_planes<Real>, exact = exact_planes<Real>;
  extern __shared__ float4 raw_memory[];
  auto& memory = *reinterpret_cast<GradientMemory<planes, exact>*>(raw_memory);
  const DeltaRule<Real>& op = pass.op;
  const DeltaRuleGradient<Real>& out = pass.gradient;
  const int64_t tiles = gridDim.x, index = blockIdx.x, head = blockIdx.y, sequence = blockIdx.z;
  const int64_t of_head = sequence * op.heads + head;
  const int count = int(min(op.time - index * tile_tokens, int64_t(tile_tokens)));
  const int64_t step = op.heads * head_size;
  const int64_t origin = ((sequence * op.time + index * tile_tokens) * op.heads + head) * head_size;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;

  // D comes as it is needed; S0 is asked for first, 4 rows and 4 columns each.
  {
    constexpr int pieces = head_size / 8, at_once = threads / pieces;
    const int row = threadIdx.x / pieces, piece = threadIdx.x % pieces * 8;
    const bf16* const from =
        pass.dstates + (of_head * tiles + index) * planes * state_entries + row * head_size + piece;
#pragma unroll
    for (int p = 0; p < planes; ++p)
#pragma unroll
      for (int i = 0; i < head_size; i += at_once)
        __pipeline_memcpy_async(memory.last.at(p, row + i, piece),
                                from + p * state_entries + i * head_size, 16);
    __pipeline_commit();
  }
  constexpr int state_rows = 4;
  const int state_column = threadIdx.x % 16 * 4, state_row = threadIdx.x / 16;
  float4 first[state_rows];
  {
    const float* const from = pass.states + (of_head * (tiles + 1) + index) * state_entries +
                              state_row * head_size + state_column;
#pragma unroll
    for (int i = 0; i < state_rows; ++i)
      first[i] = __ldg(reinterpret_cast<const float4*>(from + i * 16 * head_size));
  }
  // Of the decay each thread has a channel and four tokens.
  const int channel = warp * 8 + lane % 8, quarter = lane / 8;
  float w[4];
#pragma unroll
  for (int t = 0; t < 4; ++t)
    w[t] = quarter * 4 + t < count ? __ldg(op.w + origin + (quarter * 4 + t) * step + channel) : 1;
  // Of the vectors half of the threads have what reads the state, half what is written to it; each
  // one token and 8 channels.
  const bool reads = threadIdx.x < threads / 2;
  const int mine = threadIdx.x % (threads / 2) / 8, part = threadIdx.x % 8 * 8;
  Eight<Real> own[3];  // a, r, dy or b, k, v
  if (mine < count) {
    const int64_t place = origin + mine * step + part;
    own[0].load((reads ? op.a : op.b) + place);
    own[1].load((reads ? op.r : op.k) + place);
    own[2].load((reads ? out.dy : op.v) + place);
  }
  {
    float decay[4] = {w[0], w[0] * w[1]};
    decay[2] = decay[1] * w[2], decay[3] = decay[2] * w[3];
    float so_far = decay[3];
#pragma unroll
    for (int away = 8; away < 32; away *= 2) {
      const float before = __shfl_up_sync(~0u, so_far, away);
      if (lane >= away) so_far *= before;
    }
    const float before = __shfl_up_sync(~0u, so_far, 8);
#pragma unroll
    for (int t = 0; t < 4; ++t)
      memory.decays[quarter * 4 + t][channel] = quarter ? before * decay[t] : decay[t];
  }
  __pipeline_wait_prior(0);
  __syncthreads();
  {
    float factor[8], x[8];
    const auto read = [&](int t) {
      const float4 low = *reinterpret_cast<const float4*>(&memory.decays[t][part]);
      const float4 high = *reinterpret_cast<const float4*>(&memory.decays[t][part + 4]);
      factor[0] = low.x, factor[1] = low.y, factor[2] = low.z, factor[3] = low.w;
      factor[4] = high.x, factor[5] = high.y, factor[6] = high.z, factor[7] = high.w;
    };
    auto& to = reads ? memory.reads : memory.writes;
    read(mine);
    if (!reads)
#pragma unroll
      for (int i = 0; i < 8; ++i) factor[i] = reciprocal(factor[i]);
    own[1].unpack(x);
#pragma unroll
    for (int i = 0; i < 8; ++i) x[i] *= factor[i];
    to.set(tile_tokens + mine, part, x);
    if (reads) {
      if (mine)
        read(mine - 1);
      else
#pragma unroll
        for (int i = 0; i < 8; ++i) factor[i] = 1;
    }
    own[0].unpack(x);
#pragma unroll
    for (int i = 0; i < 8; ++i) x[i] *= factor[i];
    to.set(mine, part, x);
    own[2].unpack(x);
    (reads ? memory.dy : memory.v).set(mine, part, x);
  }
  {
    float sum[4] = {};
#pragma unroll
    for (int i = 0; i < state_rows; ++i) {
      const float S[4] = {first[i].x, first[i].y, first[i].z, first[i].w};
      float D[4];
      memory.first.set(state_row + 16 * i, state_column, S);
      memory.last.get(state_row + 16 * i, state_column, D);
#pragma unroll
      for (int j = 0; j < 4; ++j) sum[j] = fmaf(D[j], S[j], sum[j]);
    }
#pragma unroll
    for (int j = 0; j < 4; ++j) sum[j] += __shfl_xor_sync(~0u, sum[j], 16);
    if (lane < 16)
      *reinterpret_cast<float4*>(&memory.early.state_sums[warp][state_column]) =
          make_float4(sum[0], sum[1], sum[2], sum[3]);
  }
  __syncthreads();
  float all = 0;  // of D S0 in this thread's channel
#pragma unroll
  for (int n = 0; n < warps; ++n) all += memory.early.state_sums[n][channel];
  if (op.tau && threadIdx.x == 0 && count == tile_tokens) {
    const int64_t chunks = op.time / tile_tokens;
    const float4* const parts =
        reinterpret_cast<const float4*>(pass.dtau_parts + (of_head * chunks + index) * owner_warps);
    const float4 x = __ldg(parts), y = __ldg(parts + 1);
    out.dtau[(sequence * chunks + index) * op.heads + head] =
        ((x.x + x.y) + (x.z + x.w)) + ((y.x + y.y) + (y.z + y.w));
  }
  // Half of the warps have what reads the state, half what is written to it, 16 channels each.
  const bool reader = warp < warps / 2;
  const int column = warp % (warps / 2) * 16;
  const int square_top = warp % 2 * 16, square_left = warp / 2 * 16;  // a reader's, of 32 x 32
  const auto keep_lower = [&](const SplitSums<1>& sums, auto& matrix) {
    sums.total().each([&](int t, int s, float x, float y) {
      const int met = square_top ? t : t - 1;  // the last token that this one meets
      const float kept[2] = {s <= met ? x : 0.0f, s + 1 <= met ? y : 0.0f};
      matrix.set(square_top + t, square_left + s, kept);
      if (&matrix == &memory.lower && warp == 0)
        *reinterpret_cast<float2*>(&memory.early.ab[t][s]) = {kept[0], kept[1]};
    });
  };
  const auto keep = [&](const SplitSums<1>& sums, auto& matrix) {
    sums.total().each([&](int t, int i, float x, float y) {
      const float both[2] = {x, y};
      matrix.set(t, column + i, both);
    });
  };
  Left<planes> left;
  Right<planes> right;
  Right<exact> exactly;
  // Two products with the same right factor.
  const auto multiply_both = [&](SplitSums<1>(&sums)[2], const auto& a, const auto& c, int second,
                                 const auto& b, auto lies) {
#pragma unroll
    for (int k = 0; k < head_size; k += 16) {
      Left<std::remove_reference_t<decltype(a)>::planes> x;
      Left<std::remove_reference_t<decltype(c)>::planes> y;
      x.template load<Lies::straight>(a, 0, k);
      y.template load<Lies::straight>(c, second, k);
      right.template load<decltype(lies)::value>(b, k, column);
      sums[0].add(x, right);
      sums[1].add(y, right);
    }
  };
  using Straight = std::integral_constant<Lies, Lies::straight>;
  using Transposed = std::integral_constant<Lies, Lies::transposed>;
  SplitSums<1> both[2];
  if (reader) {  // both[0]: A~ S0'
    SplitSums<1> sums;
    multiply<Lies::straight, Lies::transposed, head_size>(sums, memory.reads, square_top,
                                                          memory.writes, square_left);
    keep_lower(sums, memory.lower);
    multiply<Lies::straight, Lies::transposed, head_size>(both[0], memory.reads, 0, memory.first,
                                                          column);
  } else {  // B~ D' and K~ D'
    multiply_both(both, memory.writes, memory.writes, tile_tokens, memory.last, Transposed());
  }
  __syncthreads();
  if (warp == warps - 1) {
    float x[tile_tokens];
    invert_column(memory.early.ab, lane % 16, x);
#pragma unroll
    for (int t = 0; t < tile_tokens / 2; ++t)
      memory.early.inverse.set(lane < 16 ? t : t + 8, lane % 16, lane < 16 ? x[t] : x[t + 8]);
  }
  if (reader) {  // A~ S0' + AK V
    left.template load<Lies::straight>(memory.lower, 0, tile_tokens);
    exactly.template load<Lies::straight>(memory.v, 0, column);
    both[0].add(left, exactly);
    keep(both[0], memory.sa);
  } else {  // RB' dY + B~ D'
    left.template load<Lies::transposed>(memory.lower, 0, tile_tokens);
    exactly.template load<Lies::straight>(memory.dy, 0, column);
    both[0].add(left, exactly);
    keep(both[0], memory.z);
  }
  __syncthreads();
  {
    SplitSums<1> sums;
    if (reader) {
      left.template load<Lies::straight>(memory.early.inverse, 0, 0);
      right.template load<Lies::straight>(memory.sa, 0, column);
      sums.add(left, right);
      keep(sums, memory.sa);
    } else {
      left.template load<Lies::transposed>(memory.early.inverse, 0, 0);
      right.template load<Lies::straight>(memory.z, 0, column);
      sums.add(left, right);
      keep(sums, memory.z);
    }
  }
  __syncthreads();
  if (reader) {  // Z S0 and dY S0
    both[0] = both[1] = SplitSums<1>();
    multiply_both(both, memory.z, memory.dy, 0, memory.first, Straight());
    SplitSums<1> sums;
    const auto meet = [&](const auto& asked) {
      if (square_left == 0)
        multiply<Lies::straight, Lies::transposed, head_size>(sums, asked, 0, memory.sa, 0);
      else
        multiply<Lies::straight, Lies::transposed, head_size>(sums, asked, 0, memory.v, 0);
    };
    if (square_top == 0)
      meet(memory.z);
    else
      meet(memory.dy);
    keep_lower(sums, memory.pairs);
  } else {  // dV = AK' Z + RK' dY + K~ D'; SA D and V D
    left.template load<Lies::transposed>(memory.lower, tile_tokens, 0);
    right.template load<Lies::straight>(memory.z, 0, column);
    both[1].add(left, right);
    left.template load<Lies::transposed>(memory.lower, tile_tokens, tile_tokens);
    exactly.template load<Lies::straight>(memory.dy, 0, column);
    both[1].add(left, exactly);
    both[1].total().each([&](int t, int i, float x, float y) {
      if (t < count) store_two(out.dv + origin + t * step + column + i, x, y);
    });
    both[0] = both[1] = SplitSums<1>();
    multiply_both(both, memory.sa, memory.v, 0, memory.last, Straight());
    float sum[2][2] = {};
#pragma unroll
    for (int n = 0; n < 2; ++n) {
      int piece = 0;
      both[n].total().each([&](int t, int i, float x, float y) {
        float written[2];
        memory.writes.get(n * tile_tokens + t, column + i, written);
        sum[piece / 2][0] = fmaf(x, written[0], sum[piece / 2][0]);
        sum[piece / 2][1] = fmaf(y, written[1], sum[piece / 2][1]);
        ++piece;
      });
    }
#pragma unroll
    for (int p = 0; p < 2; ++p) {
#pragma unroll
      for (int away = 4; away < 32; away *= 2) {
        sum[p][0] += __shfl_xor_sync(~0u, sum[p][0], away);
        sum[p][1] += __shfl_xor_sync(~0u, sum[p][1], away);
      }
      if (lane < 4)
        *reinterpret_cast<float2*>(&memory.write_sums[column + 8 * p + lane * 2]) = {sum[p][0],
                                                                                     sum[p][1]};
    }
  }
  __syncthreads();
  // The rest of both, from the pairs of tokens.
#pragma unroll
  for (int k = 0; k < pair_rows; k += 16) {
    right.template load<Lies::straight>(reader ? memory.writes : memory.reads, k, column);
#pragma unroll
    for (int n = 0; n < 2; ++n) {
      if (reader)
        left.template load<Lies::straight>(memory.pairs, n * tile_tokens, k);
      else
        left.template load<Lies::transposed>(memory.pairs, n * tile_tokens, k);
      both[n].add(left, right);
    }
  }
  if (reader) {
#pragma unroll
    for (int n = 0; n < 2; ++n)
      both[n].total().each([&](int t, int i, float x, float y) {
        i += column;
        float2 decay{1, 1};
        if (n == 1 || t > 0)
          decay = *reinterpret_cast<const float2*>(&memory.decays[n == 1 ? t : t - 1][i]);
        if (t < count)
          store_two((n == 0 ? out.da : out.dr) + origin + t * step + i, x * decay.x, y * decay.y);
        float read[2];
        memory.reads.get(n * tile_tokens + t, i, read);
        *reinterpret_cast<float2*>(n == 0 ? &memory.log_w.of_a[t][i] : &memory.log_w.of_r[t][i]) = {
            x * read[0], y * read[1]};
      });
  } else {
    const Sums db = both[0].total(), dk = both[1].total();
#pragma unroll
    for (int n = 0; n < 4; ++n) {
      const int t = lane / 4 + n % 2 * 8, i = column + n / 2 * 8 + lane % 4 * 2;
      const float2 x{db.c[n / 2][n % 2 * 2], db.c[n / 2][n % 2 * 2 + 1]};
      const float2 y{dk.c[n / 2][n % 2 * 2], dk.c[n / 2][n % 2 * 2 + 1]};
      float2 decay = *reinterpret_cast<const float2*>(&memory.decays[t][i]);
      decay = {reciprocal(decay.x), reciprocal(decay.y)};
      if (t < count) {
        store_two(out.db + origin + t * step + i, x.x * decay.x, x.y * decay.y);
        store_two(out.dk + origin + t * step + i, y.x * decay.x, y.y * decay.y);
      }
      float b[2], k[2];
      memory.writes.get(t, i, b), memory.writes.get(tile_tokens + t, i, k);
      *reinterpret_cast<float2*>(&memory.log_w.of_writes[t][i]) = {fmaf(x.x, b[0], y.x * k[0]),
                                                                   fmaf(x.y, b[1], y.y * k[1])};
    }
  }
  __syncthreads();
  {
    float later[4];  // from this token on
    float sum = 0;
#pragma unroll
    for (int n = 3; n >= 0; --n) {
      const int t = quarter * 4 + n;
      if (t + 1 < tile_tokens) sum += memory.log_w.of_a[t + 1][channel];
      later[n] = sum += memory.log_w.of_r[t][channel] - memory.log_w.of_writes[t][channel];
    }
    all += memory.write_sums[channel];
#pragma unroll
    for (int away = 8; away < 32; away *= 2) {
      const float after = __shfl_down_sync(~0u, sum, away);
      if (lane + away < 32) sum += after;
    }
    const float after = __shfl_down_sync(~0u, sum, 8);
    if (quarter < 3) all += after;
#pragma unroll
    for (int n = 0; n < 4; ++n) {
      const int t = quarter * 4 + n;
      if (t < count) out.dw[origin + t * step + channel] = __fdividef(all + later[n], w[n]);
    }
  }
}

}  // namespace

template <class Real>
void tile_gradients(const ReversePass<Real>& pass, const Gpu& gpu) {
  const int64_t tiles = (pass.op.time + tile_tokens - 1) / tile_tokens;
  launch(gradients_kernel<Real>,
         Grid{dim3(unsigned(tiles), unsigned(pass.op.heads), unsigned(pass.op.batch)),
              dim3(threads), sizeof(GradientMemory<result_planes<Real>, exact_planes<Real>>)},
         gpu, pass);
}

template void tile_gradients(const ReversePass<float>&, const Gpu&);
template void tile_gradients(const ReversePass<bf16>&, const Gpu&);

}  // namespace deltasane::kernel::cuda
