// The time of work on a GPU, by its own clock.
#pragma once

#include <functional>

#include "base/timing.h"
#include "tensor/cuda/gpu.h"

namespace deltasane::kernel {

// Calls `body`, which enqueues work, a few times unmeasured, then `repeats` times between events.
Timing time_on_gpu(const Gpu& gpu, const std::function<void()>& body, int repeats = 20);

}  // namespace deltasane::kernel
