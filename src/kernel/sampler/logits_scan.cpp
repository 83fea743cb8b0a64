#include "kernel/sampler/logits_scan.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/cat.h"
#include "kernel/simd.h"

namespace deltasane {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

}  // namespace

LogitsScan scan_logits(std::span<const float> logits) {
  using V = kernel::Simd<4>;
  constexpr size_t lanes = 4, vectors = 4;  // side by side, to hide the latency of one
  V::Vec largest[vectors];
  V::Int broken[vectors] = {};
  std::ranges::fill(largest, V::splat(-infinity));
  size_t i = 0;
  for (; i + vectors * lanes <= logits.size(); i += vectors * lanes)
#pragma GCC unroll 4
    for (size_t u = 0; u < vectors; ++u) {
      const V::Vec logit = V::load(logits.data() + i + u * lanes);
      largest[u] = logit > largest[u] ? logit : largest[u];
      broken[u] |= ~(logit < infinity);  // NaN is not below infinity
    }
  LogitsScan scan{-infinity, std::nullopt};
  bool any_broken = false;
  for (size_t u = 0; u < vectors; ++u)
    for (size_t lane = 0; lane < lanes; ++lane) {
      scan.largest = std::max(scan.largest, largest[u][lane]);
      any_broken |= broken[u][lane] != 0;
    }
  for (; i < logits.size(); ++i) {
    scan.largest = std::max(scan.largest, logits[i]);
    any_broken |= !(logits[i] < infinity);
  }
  if (any_broken)
    scan.first_broken =
        std::ranges::find_if(logits, [](float x) { return !(x < infinity); }) - logits.begin();
  return scan;
}

std::string overflow_message(int64_t token, float logit, std::optional<int64_t> position) {
  return cat("logits", position ? cat(" at position ", *position) : std::string(), ": token ",
             token, ": expected a finite number or -infinity (banned), found ", float_name(logit));
}

std::string float_name(float value) {
  return std::isnan(value) ? "NaN" : value > 0 ? "infinity" : "-infinity";
}

}  // namespace deltasane
