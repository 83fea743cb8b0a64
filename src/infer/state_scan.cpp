#include "infer/state_scan.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "kernel/sampler/logits_scan.h"

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

int64_t first_not_finite(std::span<const float> values) {
  return std::ranges::find_if(values, [](float value) { return !std::isfinite(value); }) -
         values.begin();
}

// Of a part that is no memory.
int64_t row_width(const StatePart& part) {
  return part.grows() ? part.floats() : part.shape[part.shape.rank() - 1];
}

}  // namespace

float largest_magnitude(std::span<const float> values) {
  const float largest = std::bit_cast<float>(largest_bits(values.data(), int64_t(values.size())));
  return std::isfinite(largest) ? largest : infinity;
}

StateScan scan_state(const SequenceState& state) {
  StateScan scan;
  if (const auto largest = state.largest_on_device();
      largest && std::isfinite(largest->memory) && std::isfinite(largest->others)) {
    scan.largest = largest->memory;
    return scan;
  }
  for (const StateHead& head : state.layout().heads()) {
    const std::span<const float> values = state.of(head);
    const float largest = largest_magnitude(values);
    scan.largest = std::max(scan.largest, largest);
    if (std::isfinite(largest) || scan.not_finite) continue;
    const int64_t at = first_not_finite(values);
    scan.not_finite = StatePlace{"memory",           head.layer,        head.head,
                                 at / head.columns, at % head.columns, values[size_t(at)]};
  }
  for (const StatePart& part : state.layout().parts()) {
    if (scan.not_finite) break;
    if (part.kind == StateKind::memory) continue;
    const std::span<const float> values = state.of(part);
    if (std::isfinite(largest_magnitude(values))) continue;
    const int64_t at = first_not_finite(values), width = row_width(part);
    StatePlace place{part.name, part.layer, std::nullopt, at / width, at % width,
                     values[size_t(at)]};
    if (!part.grows() && width == part.floats()) place.row.reset();  // its only one
    scan.not_finite = place;
  }
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
  if (place.head)
    where += cat(", head ", *place.head, ": row ", *place.row, ", column ", place.column);
  else
    where += cat(", ", place.part, ": ", place.row ? cat("row ", *place.row, ", ") : "", "channel ",
                 place.column);
  return cat(where, " is ", float_name(place.value),
             "; let the state be reset where it overflows, or use SANE (alpha 3)");
}

}  // namespace deltasane
