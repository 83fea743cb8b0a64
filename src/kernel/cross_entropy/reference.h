// The definition, one row, in float or double: returns the weighted loss without the wrap.
#pragma once

#include <cstdint>
#include <span>

namespace deltasane::kernel::reference {

template <class Real>
Real cross_entropy(std::span<Real> logits, int32_t target, Real weight, Real wrap);

}  // namespace deltasane::kernel::reference
