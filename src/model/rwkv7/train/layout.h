// RWKV-7's parameters as one row of floats, in the official order.
#pragma once

#include <optional>

#include "model/train/parameters.h"
#include "model/rwkv7/checkpoint/checkpoint.h"

namespace deltasane::rwkv7 {

ParameterLayout parameter_layout(const Rwkv7Shape& shape);

// A copy of a source, which must have the tensors of `shape`.
Parameters parameters_of(const TensorSource& source, const Rwkv7Shape& shape,
                         const std::optional<SaneSettings>& sane);

// A copy with x_tau = 0 and w_tau = 0 added: tau is alpha ln 2 + 1 everywhere. `shape`: the
// source's; it gets SANE's tensors. Fails where the source has SANE already.
Parameters grafted(const TensorSource& source, Rwkv7Shape& shape, const SaneSettings& sane);

// What a checkpoint of such a model states beside its tensors.
Metadata metadata_of(const Rwkv7Norms& norms, const std::optional<SaneSettings>& sane);

// The parameters as a checkpoint, without a copy: good for as long as they live.
Rwkv7Checkpoint as_checkpoint(const Parameters& parameters, const Rwkv7Norms& norms = {});

}  // namespace deltasane::rwkv7
