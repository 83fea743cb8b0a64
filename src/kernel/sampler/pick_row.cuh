// How a token is picked from a row, in terms of four walks over the row that a Walker makes: a
// block of a GPU, or one thread. For .cu files, which must be compiled without fused multiply-adds.
//
//   scan()              the largest logit and its first place, the first that is broken
//   total(measure)      the sum of measure(token, logit)
//   digit(...)          the next eight bits of a border, see find_border
//   reach(measure, m)   the first token, in order of ids, where the running sum exceeds m
//
// and, where few tokens are kept, in terms of a list of them:
//
//   list(count)         makes it: that many tokens, most probable first, of those that are not
//                       banned; returns how many, -1 where it cannot
//   reach_in_list(measure, some, m), total_of_list(measure, some)
//                       of the list's first ones: the first where the running sum exceeds m, its
//                       number, or `some`; the sum. listed(number) is the token.
//
// A measure is an integer, so that sums are exact and do not depend on who adds what first.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#include "kernel/sampler/cuda.h"

namespace deltasane::kernel::cuda {

// As infer/token_selection.cpp: a longer nucleus is drawn from in the order of ids.
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

// In the order of logits; both zeros are one.
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

// exp(logit - largest) as infer/token_weights.cpp has it, bit for bit.
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
// Weights in units of which all of a vocabulary fit into 63 bits.
struct MassMeasure {
  float largest, scale;
  double units;  // of a weight of 1
  __host__ __device__ uint64_t operator()(int32_t, float logit) const {
    return uint64_t(double(weight_of(logit, largest, scale)) * units);
  }
};
// A measure of the first tokens, most probable first, of equal ones the lowest id first.
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

// The last of the tokens, most probable first, that are needed to reach some measure.
struct Border {
  uint32_t key;
  uint64_t nth;  // of the tokens with that key, from 1, in order of ids
};

// Eight bits of the border's key at a time: `digit` gives those below `known` (from bit `shift` up)
// where the measure of the tokens from there on, those of larger keys first, reaches `need`, and
// adds what lies above them to `above`.
struct Digit {
  uint32_t digit;
  uint64_t above, own;  // own: of the tokens that agree with the digit too
};
// Each walker calls this from where it is at home, the host or the GPU.
#pragma nv_exec_check_disable
template <class Walker, class Measure>
__host__ __device__ Border find_border(Walker& walker, const Measure& measure, uint64_t need) {
  uint32_t key = 0;
  uint64_t above = 0;
#pragma unroll 1
  for (int shift = 24; shift >= 0; shift -= 8) {
    const Digit found = walker.digit(measure, key, shift, above, need);
    key |= found.digit << shift;
    above = found.above;
  }
  const uint64_t one = measure(0, logit_of(key));
  return {key, one == 0 ? 1 : (need - above + one - 1) / one};
}

__host__ __device__ inline double units_of(int64_t vocabulary) {
  double units = 4611686018427387904.0;  // 2^62
  for (int64_t room = 1; room < vocabulary; room *= 2) units /= 2;
  return units;
}

// Of how much of all there is the draw is made.
struct Draw {
  uint64_t before;  // what the tokens before the one that is drawn have at most
  __host__ __device__ Draw(double uniform, uint64_t all) {
    const auto drawn = uint64_t(uniform * double(all));
    before = drawn < all ? drawn : all - 1;
  }
};
__host__ __device__ inline uint64_t wanted_of(double top_p, uint64_t all) {
  const auto wanted = uint64_t(ceil(top_p * double(all)));
  return wanted < 1 ? 1 : wanted > all ? all : wanted;
}

// From the list that the walker has made; `all`: of the whole row, as top-p sees it.
#pragma nv_exec_check_disable
template <class Walker>
__host__ __device__ int32_t pick_listed(Walker& walker, int count, const Picking& how,
                                        const MassMeasure& mass, const MassMeasure& filter,
                                        uint64_t all) {
  int kept = count;
  if (how.top_p < 1) {
    const int last = walker.reach_in_list(filter, count, wanted_of(how.top_p, all) - 1);
    kept = last < count ? last + 1 : count;
  }
  const Draw draw(how.uniform, walker.total_of_list(mass, kept));
  return walker.listed(walker.reach_in_list(mass, kept, draw.before));
}

#pragma nv_exec_check_disable
template <class Walker>
__host__ __device__ Picked pick_row(Walker& walker, int64_t vocabulary, const Picking& how) {
  Picked picked;
  const RowScan scan = walker.scan();
  if (scan.broken != INT32_MAX) {
    picked.broken = scan.broken;
    picked.value = walker.logit(scan.broken);
    return picked;
  }
  if (scan.largest == -INFINITY) return picked;
  if (how.greedy) {
    picked.token = scan.top;
    return picked;
  }
  const double units = units_of(vocabulary);
  const MassMeasure mass{scan.largest, how.scale, units};
  const MassMeasure filter{scan.largest, how.filter_scale, units};
  const bool cut = how.top_p<1, few = how.top_k> 0 && how.top_k < vocabulary;
  const uint64_t all_filtered = cut ? walker.total(filter) : 0;
  if (few && how.top_k <= most_listed) {
    const int count = walker.list(int(how.top_k));
    if (count >= 0) {
      picked.token = pick_listed(walker, count, how, mass, filter, all_filtered);
      return picked;
    }
  }
  FirstOf<MassMeasure> kept{mass, 0, INT32_MAX};
  bool listed = few;
  if (few || cut) {
    Border border{0, 1};
    if (few) {
      const uint64_t there = walker.total(CountMeasure{});
      border = find_border(walker, CountMeasure{},
                           uint64_t(how.top_k) < there ? uint64_t(how.top_k) : there);
    }
    if (cut) {
      const Border nucleus = find_border(walker, filter, wanted_of(how.top_p, all_filtered));
      const bool shorter =
          nucleus.key != border.key ? nucleus.key > border.key : nucleus.nth < border.nth;
      if (!few || shorter) border = nucleus;
    }
    kept.key = border.key;
    kept.last = walker.reach(EqualMeasure{border.key}, border.nth - 1);
    if (!few) listed = walker.total(FirstOf<CountMeasure>{{}, kept.key, kept.last}) <= most_listed;
  }
  const Draw draw(how.uniform, walker.total(kept));
  if (listed) {
    const Border at = find_border(walker, mass, draw.before + 1);
    picked.token = walker.reach(EqualMeasure{at.key}, at.nth - 1);
  } else {
    picked.token = walker.reach(kept, draw.before);
  }
  return picked;
}

}  // namespace deltasane::kernel::cuda
