// The recurrence of kernel/delta_rule/cuda.h on arrays of Python, in a build with CUDA: on the
// caller's stream, in the caller's memory. Nothing is allocated and nothing waited for, so that the
// calls can be captured in a CUDA graph.
#pragma once

#include <nanobind/nanobind.h>

namespace deltasane::python {

void bind_gpu_calls(nanobind::module_& m);

}  // namespace deltasane::python
