// How time_mix_inputs normalizes the key direction of a head. Models were trained with one of two:
//
//     kappa = k k_k / max(|k k_k|, 1e-12)          added = 0, least = 1e-12: the official one
//     kappa = k k_k rsqrt(|k k_k|^2 + 1e-6)        added = 1e-6, least = 0
#pragma once

namespace deltasane::kernel {

// kappa = k k_k / max(sqrt(|k k_k|^2 + added), least)
struct KeyNorm {
  float added = 0, least = 1e-12f;
  friend bool operator==(const KeyNorm&, const KeyNorm&) = default;
};

inline constexpr KeyNorm rsqrt_key_norm{1e-6f, 0};

}  // namespace deltasane::kernel
