// Where and how an operator computes on the CPU. Results do not depend on the number of threads.
#pragma once

#include "base/threads.h"
#include "kernel/isa.h"

namespace deltasane::kernel {

struct Cpu {
  ThreadPool& threads;
  Isa isa = best_isa();
};

}  // namespace deltasane::kernel
