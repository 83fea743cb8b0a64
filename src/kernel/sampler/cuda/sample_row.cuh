// Sampling one row of logits, written in terms of passes over the row. Who makes the passes is a
// template parameter: blocks of a GPU (blocks.cu) or one thread of the host (host.cu). For .cu
// files, which must be compiled without fused multiply-adds.
//
//   scan()              the largest logit and its first token, the first that is NaN or +inf
//   total(measure)      the sum of measure(token, logit)
//   digit(...)          the next eight bits of a cutoff, see find_cutoff
//   reach(measure, m)   the first token, in order of ids, where the running sum exceeds m
//
// and, where few tokens are kept, in terms of a list of them:
//
//   list(count)         makes it: the `count` most probable tokens that are not banned, most
//                       probable first; returns how many, -1 where it cannot
//   reach_in_list(measure, some, m), total_of_list(measure, some)
//                       over the list's first `some`: the index where the running sum first exceeds
//                       m, or `some`; the sum. listed(index) is the token.
//
// A measure is an integer, so that sums are exact and do not depend on their order.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#include "kernel/sampler/cuda.h"

namespace deltasane::kernel::cuda {

// As token_selection.cpp: a larger nucleus is sampled in the order of ids.
constexpr int64_t most_listed = 64;

struct RowScan {
  float largest = -INFINITY;
  int32_t top = INT32_MAX;     // the first with the largest logit
  int32_t broken = INT32_MAX;  // the first NaN or +inf
};

__host__ __device__ inline RowScan joined(const RowScan& a, const RowScan& b) {
  RowScan both;
  const bool first = a.largest != b.largest ? a.largest > b.largest : a.top < b.top;
  both.largest = first ? a.largest : b.largest;
  both.top = first ? a.top : b.top;
  both.broken = a.broken < b.broken ? a.broken : b.broken;
  return both;
}
__host__ __device__ inline RowScan scanned(int32_t token, float logit) {
  RowScan one;
  if (!(logit < INFINITY)) {
    one.broken = token;
  } else {
    one.largest = logit, one.top = token;
  }
  return one;
}

// An integer in the order of logits; both zeros have the same.
__host__ __device__ inline uint32_t key_of(float logit) {
  const float whole = logit + 0.0f;
  uint32_t bits;
  memcpy(&bits, &whole, sizeof bits);
  return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}
__host__ __device__ inline float logit_of(uint32_t key) {
  const uint32_t bits = key & 0x80000000u ? key & 0x7fffffffu : ~key;
  float logit;
  memcpy(&logit, &bits, sizeof logit);
  return logit;
}

// exp2((logit - largest) scale), bit for bit as token_weights.cpp computes it.
__host__ __device__ inline float weight_of(float logit, float largest, float scale) {
  const float x = (logit - largest) * scale;
  if (!(x >= -126.0f)) return 0;
  constexpr float round = 12582912.0f;
  const float shifted = x + round;
  const float f = x - (shifted - round), f2 = f * f;
  const float high = (f * 1.3333558e-3f + 9.6181291e-3f) + f2 * 1.5403530e-4f;
  const float middle = f * 5.5504109e-2f + 2.4022651e-1f;
  const float p = (f * 6.9314718e-1f + 1.0f) + f2 * (middle + f2 * high);
  int32_t n, zero;
  memcpy(&n, &shifted, sizeof n);
  memcpy(&zero, &round, sizeof zero);
  const uint32_t exponent = uint32_t(n - zero + 127) << 23;
  float power;
  memcpy(&power, &exponent, sizeof power);
  return p * power;
}

struct CountMeasure {  // tokens that are not banned
  __host__ __device__ uint64_t operator()(int32_t, float logit) const { return logit > -INFINITY; }
};
struct EqualMeasure {
  uint32_t key;
  __host__ __device__ uint64_t operator()(int32_t, float logit) const {
    return key_of(logit) == key;
  }
};
// Weights in fixed point, such that the sum over a vocabulary fits into 63 bits.
struct MassMeasure {
  float largest, scale;
  double units;  // per weight of 1
  __host__ __device__ uint64_t operator()(int32_t, float logit) const {
    return uint64_t(double(weight_of(logit, largest, scale)) * units);
  }
};
// A measure restricted to the tokens up to a cutoff, most probable first, of equal ones the lowest
// id first.
template <class Measure>
struct FirstOf {
  Measure measure;
  uint32_t key;  // of the last
  int32_t last;
  __host__ __device__ uint64_t operator()(int32_t token, float logit) const {
    const uint32_t own = key_of(logit);
    return own > key || (own == key && token <= last) ? measure(token, logit) : 0;
  }
};

// The last token that is needed to reach some measure, most probable first.
struct Cutoff {
  uint32_t key;
  uint64_t nth;  // among the tokens with that key, from 1, in order of ids
};

// Radix select, eight bits of the cutoff's key at a time: `digit` gives those below `known` (from
// bit `shift` up) where the measure of the tokens from there on, those of larger keys first,
// reaches `need`, and adds the measure of the tokens above them to `above`.
struct Digit {
  uint32_t digit;
  uint64_t above, own;  // own: of the tokens with this digit too
};
// Called on the host by the host's passes, on the GPU by the GPU's.
#pragma nv_exec_check_disable
template <class Passes, class Measure>
__host__ __device__ Cutoff find_cutoff(Passes& passes, const Measure& measure, uint64_t need) {
  uint32_t key = 0;
  uint64_t above = 0;
#pragma unroll 1
  for (int shift = 24; shift >= 0; shift -= 8) {
    const Digit found = passes.digit(measure, key, shift, above, need);
    key |= found.digit << shift;
    above = found.above;
  }
  const uint64_t one = measure(0, logit_of(key));
  return {key, one == 0 ? 1 : (need - above + one - 1) / one};
}

__host__ __device__ inline double units_of(int64_t vocabulary) {
  double units = 4611686018427387904.0;  // 2^62
  for (int64_t size = 1; size < vocabulary; size *= 2) units /= 2;
  return units;
}

// Inverse transform sampling: the sampled token is the first whose running sum exceeds `before`.
struct Draw {
  uint64_t before;
  __host__ __device__ Draw(double uniform, uint64_t all) {
    const auto drawn = uint64_t(uniform * double(all));
    before = drawn < all ? drawn : all - 1;
  }
};
__host__ __device__ inline uint64_t wanted_of(double top_p, uint64_t all) {
  const auto wanted = uint64_t(ceil(top_p * double(all)));
  return wanted < 1 ? 1 : wanted > all ? all : wanted;
}

// From the list of kept tokens; `all`: the filter's measure of the whole row.
#pragma nv_exec_check_disable
template <class Passes>
__host__ __device__ int32_t sample_listed(Passes& passes, int count, const SamplingParams& how,
                                          const MassMeasure& mass, const MassMeasure& filter,
                                          uint64_t all) {
  int kept = count;
  if (how.top_p < 1) {
    const int last = passes.reach_in_list(filter, count, wanted_of(how.top_p, all) - 1);
    kept = last < count ? last + 1 : count;
  }
  const Draw draw(how.uniform, passes.total_of_list(mass, kept));
  return passes.listed(passes.reach_in_list(mass, kept, draw.before));
}

#pragma nv_exec_check_disable
template <class Passes>
__host__ __device__ SampledToken sample_with(Passes& passes, int64_t vocabulary,
                                             const SamplingParams& how) {
  SampledToken sampled;
  const RowScan scan = passes.scan();
  if (scan.broken != INT32_MAX) {
    sampled.broken = scan.broken;
    sampled.value = passes.logit(scan.broken);
    return sampled;
  }
  if (scan.largest == -INFINITY) return sampled;
  if (how.greedy) {
    sampled.token = scan.top;
    return sampled;
  }
  const double units = units_of(vocabulary);
  const MassMeasure mass{scan.largest, how.scale, units};
  const MassMeasure filter{scan.largest, how.filter_scale, units};
  const bool cut = how.top_p<1, few = how.top_k> 0 && how.top_k < vocabulary;
  const uint64_t all_filtered = cut ? passes.total(filter) : 0;
  if (few && how.top_k <= most_listed) {
    const int count = passes.list(int(how.top_k));
    if (count >= 0) {
      sampled.token = sample_listed(passes, count, how, mass, filter, all_filtered);
      return sampled;
    }
  }
  FirstOf<MassMeasure> kept{mass, 0, INT32_MAX};
  bool listed = few;
  if (few || cut) {
    Cutoff cutoff{0, 1};
    if (few) {
      const uint64_t there = passes.total(CountMeasure{});
      cutoff = find_cutoff(passes, CountMeasure{},
                           uint64_t(how.top_k) < there ? uint64_t(how.top_k) : there);
    }
    if (cut) {
      const Cutoff nucleus = find_cutoff(passes, filter, wanted_of(how.top_p, all_filtered));
      const bool shorter =
          nucleus.key != cutoff.key ? nucleus.key > cutoff.key : nucleus.nth < cutoff.nth;
      if (!few || shorter) cutoff = nucleus;
    }
    kept.key = cutoff.key;
    kept.last = passes.reach(EqualMeasure{cutoff.key}, cutoff.nth - 1);
    if (!few) listed = passes.total(FirstOf<CountMeasure>{{}, kept.key, kept.last}) <= most_listed;
  }
  const Draw draw(how.uniform, passes.total(kept));
  if (listed) {
    const Cutoff at = find_cutoff(passes, mass, draw.before + 1);
    sampled.token = passes.reach(EqualMeasure{at.key}, at.nth - 1);
  } else {
    sampled.token = passes.reach(kept, draw.before);
  }
  return sampled;
}

}  // namespace deltasane::kernel::cuda
