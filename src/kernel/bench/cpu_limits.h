// The rates of a plain read of memory and of a plain loop of fused multiply-adds on this machine:
// the two limits that benchmarks are compared with, measured in the same run.
#pragma once

#include "base/threads.h"
#include "kernel/isa.h"

namespace deltasane::kernel {

struct MachineLimits {
  double read_bytes_per_second = 0;
  double multiply_add_flops_per_second = 0;  // two operations per multiply-add
};

MachineLimits measure_limits(ThreadPool& threads, Isa isa);
// Over about a millisecond. On a shared machine a limit measured just before and just after a
// benchmark says more than one of a minute ago.
double multiply_add_flops_per_second_now(ThreadPool& threads, Isa isa);

}  // namespace deltasane::kernel
