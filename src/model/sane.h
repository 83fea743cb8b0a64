// How SANE is applied to a model's states.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "format/tensor_file.h"

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
// The alpha and the chunk in such a text; none without SANE.
std::optional<double> alpha_in(const std::string& text);
std::optional<int64_t> chunk_in(const std::string& text);

// The two settings of a model trained with SANE, which travel as metadata: sane.alpha, sane.chunk.
struct SaneSettings {
  double alpha = 0;
  int64_t chunk = 0;
  friend bool operator==(const SaneSettings&, const SaneSettings&) = default;
};
// None for a baseline. Fails where settings come without tensors, or tensors without settings.
std::optional<SaneSettings> sane_settings(bool has_tensors, const Metadata& metadata,
                                          std::string_view where);

Metadata sane_metadata(const std::optional<SaneSettings>& sane);  // empty for a baseline

// For training: whether SANE is to be added to a model. Fails where it was trained with other
// settings, and where the wanted ones cannot be.
bool wants_graft(const std::optional<SaneSettings>& trained,
                 const std::optional<SaneSettings>& wanted, std::string_view where);
void expect_valid(const SaneSettings& wanted);

inline constexpr double largest_alpha = 1e30;  // tau, of floats, stays finite

// Whether run-time SANE can have this alpha: tau = alpha ln 2 + 1 is above 0. So an alpha below 0 can
// hold states whose entries are far below 1, as DeltaNet's are; 0 is kept for "none".
bool is_run_time_alpha(double alpha);

// How a model runs: with the SANE it was trained with, with thresholds put on it (tau = alpha ln 2 +
// 1, every `default_sane_chunk` tokens), or without. Fails where a trained one is given an alpha.
struct SaneChoice {
  std::optional<double> alpha;
  bool none = false;
};
inline constexpr int64_t default_sane_chunk = 16;
SaneUse chosen_sane(const std::optional<SaneSettings>& trained, const SaneChoice& choice,
                    std::string_view where);

}  // namespace deltasane
