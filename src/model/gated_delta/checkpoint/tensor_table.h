// Every tensor of a model under our own names, which are the same whatever file it comes from.
//
// (out, in) for matrices. Rows of q, k and v follow each other; value heads are in the order in which
// they share key heads; norms hold what they multiply by; decay_log_rate is A_log.
#pragma once

#include <functional>
#include <string>

#include "model/gated_delta/config.h"

namespace deltasane::gated_delta {

enum class TensorForm { matrix, matrices, vector };  // matrices: (expert or head, out, in)

using VisitTensor = std::function<void(const std::string& name, const Shape&, TensorForm)>;
void each_tensor(const Config& config, const VisitTensor& visit);

// The name of a layer's tensor.
std::string layer_tensor(int64_t layer, std::string_view name);

}  // namespace deltasane::gated_delta
