// The array that kernels of a namespace declare as `extern __shared__`, for the .cu file that is
// included after it.
#pragma once

#include <cuda_runtime.h>

#define DYNAMIC_SHARED_OF(space)                                                              \
  namespace deltasane::space {                                                                \
  namespace {                                                                                 \
  alignas(128) [[maybe_unused]] float4 dynamic_shared[emulation::shared_bytes / sizeof(float4)]; \
  [[maybe_unused]] const bool known =                                                         \
      emulation::register_shared(dynamic_shared, sizeof(dynamic_shared));                     \
  }                                                                                           \
  }
