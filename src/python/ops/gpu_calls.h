// The recurrence of kernel/delta_rule/cuda.h on arrays of Python, in a build with CUDA: on the
// caller's stream, in the caller's memory. Nothing is allocated and nothing waited for, so that the
// calls can be captured in a CUDA graph.
#pragma once

#include <nanobind/nanobind.h>

#include <array>
#include <cstdint>

#include "python/ops/gpu_place.h"

namespace deltasane::python {

// Addresses of packed tensors on the device, or null.
struct GpuCall {
  GpuPlace place;
  bool is_bf16;
  int64_t batch, time, heads, position, chunk;
  std::array<void*, 8> inputs;  // r, w, k, v, a, b, tau, state
  float* kept;                  // the states for the backward pass
  int64_t kept_floats;          // 0: none are kept
};

void gpu_forward(const GpuCall& call, void* y, float* final_state);
// results: dr, dw, dk, dv, da, db, dtau, dstate
void gpu_backward(const GpuCall& call, const void* dy, const float* dfinal,
                  const std::array<void*, 8>& results);
int64_t gpu_kept_floats(int64_t batch, int64_t time, int64_t heads);

void bind_gpu_calls(nanobind::module_& m);

}  // namespace deltasane::python
