// Where and how to compute on the host. Results do not depend on the number of threads.
#pragma once

#include "base/threads.h"
#include "kernel/isa.h"
#include "tensor/buffer_pool.h"

namespace deltasane::kernel {

class InputSquares;

struct Cpu {
  ThreadPool& threads;
  Isa isa = best_isa();
  InputSquares* inputs = nullptr;  // that sums up what matrices are multiplied with; null: none
  BufferPool* buffers = nullptr;   // for what operators need meanwhile; null: new memory each time
};

}  // namespace deltasane::kernel
