// How SANE is applied to a model's states.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace deltasane {

// How states are kept in bounds: not at all, by thresholds the model was trained with, or by fixed
// ones put on a model that was trained without.
enum class SaneKind { none, trained, run_time };
std::string_view name_of(SaneKind kind);

struct SaneUse {
  SaneKind kind = SaneKind::none;
  double alpha = 0;
  int64_t chunk = 0;  // tokens; alpha and chunk are 0 where there is no SANE
  friend bool operator==(const SaneUse&, const SaneUse&) = default;
};
std::string to_string(const SaneUse& sane);  // "trained SANE with alpha 3, chunk 16"

}  // namespace deltasane
