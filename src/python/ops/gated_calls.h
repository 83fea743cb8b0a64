// The other rules of kernel/delta_rule/gated_cuda/gated_rule.h on arrays of Python, in a build with
// CUDA, as gpu_calls.h has the generalized one.
#pragma once

#include <nanobind/nanobind.h>

namespace deltasane::python {

void bind_gated_calls(nanobind::module_& m);

}  // namespace deltasane::python
