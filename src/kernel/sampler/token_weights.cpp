#include "kernel/sampler/token_weights.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "base/error.h"
#include "kernel/simd.h"

namespace deltasane {
namespace {

using V = kernel::Simd<4>;
using Vec = V::Vec;
using Int = V::Int;

constexpr size_t lanes = 4;
constexpr size_t step = 4 * lanes;  // four vectors at once, to hide the latency of one
constexpr size_t block = 1024;      // weights summed in float before the sum continues in double
constexpr float infinity = std::numeric_limits<float>::infinity();

// 2^x for x <= 0. Adding and taking away 1.5 * 2^23 rounds to the nearest integer n; the rest f is
// in [-1/2, 1/2], where the polynomial (Taylor, with the coefficients ln(2)^i / i!) is good to a
// float's precision; n goes into the bits of the exponent.
Vec power_of_two(Vec x) {
  constexpr float round = 12582912.0f;
  const Vec clamped = x < -126.0f ? V::splat(-126.0f) : x;
  const Vec shifted = clamped + round;
  const Vec f = clamped - (shifted - round);
  const Vec f2 = f * f;  // in pairs: shorter chains than one coefficient after the other
  const Vec high = (f * 1.3333558e-3f + 9.6181291e-3f) + f2 * 1.5403530e-4f;
  const Vec middle = f * 5.5504109e-2f + 2.4022651e-1f;
  const Vec p = (f * 6.9314718e-1f + 1.0f) + f2 * (middle + f2 * high);
  const Int n = V::bits(shifted) - std::bit_cast<int32_t>(round);
  const Vec power = p * reinterpret_cast<Vec>((n + 127) << 23);
  return x < -126.0f ? Vec{} : power;
}

void add_block(TokenMass& sum, const float* weights, const float* logits, size_t count,
               float least) {
  Vec masses[4] = {};
  Int tokens[4] = {};
  size_t i = 0;
  for (; i + step <= count; i += step)
#pragma GCC unroll 4
    for (size_t u = 0; u < 4; ++u) {
      const Int kept = V::load(logits + i + u * lanes) >= least;  // -1 where it is
      masses[u] += reinterpret_cast<Vec>(V::bits(V::load(weights + i + u * lanes)) & kept);
      tokens[u] -= kept;
    }
  for (; i < count; ++i) {
    if (!(logits[i] >= least)) continue;
    sum.mass += weights[i];
    ++sum.tokens;
  }
  for (size_t u = 0; u < 4; ++u)
    for (size_t lane = 0; lane < lanes; ++lane) {
      sum.mass += masses[u][lane];
      sum.tokens += tokens[u][lane];
    }
}

}  // namespace

void fill_weights(std::span<const float> logits, float largest, double temperature,
                  std::span<float> weights) {
  require(logits.size() == weights.size(), "a weight for each logit");
  const auto scale = float(1.4426950408889634 / temperature);
  size_t i = 0;
  for (; i + step <= logits.size(); i += step)
#pragma GCC unroll 4
    for (size_t u = i; u < i + step; u += lanes)
      V::store(weights.data() + u, power_of_two((V::load(logits.data() + u) - largest) * scale));
  for (; i < logits.size(); ++i)
    weights[i] = power_of_two(V::splat(logits[i] - largest) * scale)[0];
}

TokenMass mass_from(std::span<const float> weights, std::span<const float> logits, float least) {
  require(logits.size() == weights.size(), "a weight for each logit");
  TokenMass sum;
  for (size_t i = 0; i < weights.size(); i += block)
    add_block(sum, weights.data() + i, logits.data() + i, std::min(block, weights.size() - i),
              least);
  return sum;
}

double mass_of(std::span<const float> weights) { return mass_from(weights, weights, 0).mass; }

int32_t token_at_mass(std::span<const float> weights, double target) {
  double before = 0;
  size_t last = weights.size();  // with a weight
  for (size_t i = 0; i < weights.size(); i += block) {
    const size_t end = std::min(i + block, weights.size());
    TokenMass here;
    add_block(here, weights.data() + i, weights.data() + i, end - i, 0);
    if (here.mass > 0)
      for (last = end - 1; weights[last] == 0;) --last;
    if (before + here.mass > target) {
      for (size_t at = i; at < end; ++at)
        if ((before += weights[at]) > target) return int32_t(at);
      break;  // one by one, the weights of this block are a rounding short of their sum
    }
    before += here.mass;
  }
  require(last < weights.size(), "token_at_mass is given a weight above zero");
  return int32_t(last);
}

float smallest_from(std::span<const float> logits, float bound) {
  Vec smallest[2] = {V::splat(infinity), V::splat(infinity)};
  size_t i = 0;
  for (; i + 2 * lanes <= logits.size(); i += 2 * lanes)
    for (size_t u = 0; u < 2; ++u) {
      const Vec logit = V::load(logits.data() + i + u * lanes);
      smallest[u] = ((logit >= bound) & (logit < smallest[u])) ? logit : smallest[u];
    }
  float found = infinity;
  for (size_t lane = 0; lane < lanes; ++lane)
    found = std::min({found, smallest[0][lane], smallest[1][lane]});
  for (; i < logits.size(); ++i)
    if (logits[i] >= bound) found = std::min(found, logits[i]);
  return found;
}

bool any_between(std::span<const float> logits, float least, float below) {
  Int any = {};
  size_t i = 0;
  for (; i + lanes <= logits.size(); i += lanes) {
    const Vec logit = V::load(logits.data() + i);
    any |= (logit >= least) & (logit < below);
  }
  int32_t found = any[0] | any[1] | any[2] | any[3];
  for (; i < logits.size(); ++i) found |= logits[i] >= least && logits[i] < below;
  return found != 0;
}

void drop_below(std::span<float> weights, std::span<const float> logits, float least) {
  size_t i = 0;
  for (; i + lanes <= weights.size(); i += lanes) {
    const Vec weight = V::load(weights.data() + i);
    V::store(weights.data() + i, V::load(logits.data() + i) >= least ? weight : Vec{});
  }
  for (; i < weights.size(); ++i) weights[i] = logits[i] >= least ? weights[i] : 0.0f;
}

}  // namespace deltasane
