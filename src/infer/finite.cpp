#include "infer/finite.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "kernel/simd.h"

namespace deltasane {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

// As integers, magnitudes are in order and NaN is above infinity, so that one maximum answers both
// questions. It is an integer maximum because the compiler may reorder that, and so vectorise it.
int32_t largest_bits(const float* values, int64_t count) {
  int32_t largest = 0;
  for (int64_t i = 0; i < count; ++i)
    largest = std::max(largest, std::bit_cast<int32_t>(values[i]) & 0x7fffffff);
  return largest;
}

std::optional<int64_t> first_not_finite(std::span<const float> values) {
  const auto found =
      std::ranges::find_if(values, [](float value) { return !std::isfinite(value); });
  if (found == values.end()) return std::nullopt;
  return found - values.begin();
}

std::string named(float value) {
  return std::isnan(value) ? "NaN" : value > 0 ? "infinity" : "-infinity";
}

}  // namespace

float largest_magnitude(std::span<const float> values) {
  const float largest = std::bit_cast<float>(largest_bits(values.data(), int64_t(values.size())));
  return std::isfinite(largest) ? largest : infinity;
}

StateScan scan_state(const RecurrentState& state) {
  const StateShape& shape = state.shape;
  const auto matrix = size_t(shape.head_size * shape.head_size);
  StateScan scan;
  if (const auto largest = state.largest_on_device();
      largest && std::isfinite(largest->memory) && std::isfinite(largest->shift)) {
    scan.largest = largest->memory;
    return scan;
  }
  for (int64_t i = 0; i < shape.layers * shape.heads; ++i) {
    const auto values = state.memory().span().subspan(size_t(i) * matrix, matrix);
    const float largest = largest_magnitude(values);
    scan.largest = std::max(scan.largest, largest);
    if (std::isfinite(largest) || scan.not_finite) continue;
    const int64_t at = *first_not_finite(values);
    scan.not_finite = StatePlace{StatePart::memory,    i / shape.heads,      i % shape.heads,
                                 at / shape.head_size, at % shape.head_size, values[size_t(at)]};
  }
  if (scan.not_finite || std::isfinite(largest_magnitude(state.shift().span()))) return scan;
  const int64_t at = *first_not_finite(state.shift().span());
  const int64_t row = at / shape.channels;
  scan.not_finite = StatePlace{row % 2 ? StatePart::channel_shift : StatePart::time_shift,
                               row / 2,
                               0,
                               0,
                               at % shape.channels,
                               state.shift()[at]};
  return scan;
}

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

std::string_view name_of(OnOverflow policy) {
  return policy == OnOverflow::stop ? "stop" : "reset";
}

OnOverflow on_overflow_named(std::string_view name) {
  for (const OnOverflow policy : {OnOverflow::stop, OnOverflow::reset})
    if (name == name_of(policy)) return policy;
  fail(Fault::usage, "on-overflow: expected stop or reset, found '", name, "'");
}

std::string overflow_message(const StatePlace& place, int64_t position) {
  std::string where = cat("state overflowed at position ", position, " in layer ", place.layer);
  if (place.part == StatePart::memory)
    where += cat(", head ", place.head, ": row ", place.row, ", column ", place.column);
  else
    where += cat(", ", place.part == StatePart::time_shift ? "time" : "channel",
                 " mix shift: channel ", place.column);
  return cat(where, " is ", named(place.value),
             "; use --on-overflow reset, or SANE (--sane-alpha 3)");
}

std::string overflow_message(int64_t token, float logit, std::optional<int64_t> position) {
  return cat("logits", position ? cat(" at position ", *position) : std::string(), ": token ",
             token, ": expected a finite number or -infinity (banned), found ", named(logit));
}

}  // namespace deltasane
