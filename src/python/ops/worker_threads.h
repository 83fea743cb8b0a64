// The threads that operators called from Python run on. They are started by the first call, not by
// the import, and again by the first call after a fork, which copies no threads.
#pragma once

#include <cstdint>
#include <functional>

#include "base/threads.h"

namespace deltasane::python {

// Runs `body` with the pool; calls from several threads of Python wait for each other. Work of few
// multiplications is done by the caller alone: waking others would take longer.
void with_worker_threads(int64_t multiplications, const std::function<void(ThreadPool&)>& body);

void set_threads(int count);  // from the next call on; 0: all processors
int threads();

}  // namespace deltasane::python
