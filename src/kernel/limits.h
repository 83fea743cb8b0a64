// What this machine reaches on a plain read of memory and on a plain loop of fused multiply-adds:
// the two limits every benchmark is held against, measured in the same run.
#pragma once

#include "base/threads.h"
#include "kernel/isa.h"

namespace deltasane::kernel {

struct MachineLimits {
  double read_bytes_per_second = 0;
  double multiply_add_flops_per_second = 0;  // two operations per multiply-add
};

MachineLimits measure_limits(ThreadPool& threads, Isa isa);
// Of one stretch of about a millisecond. Where others use the machine too, a limit that was
// measured just before and just after something says more than one of a minute ago.
double multiply_add_flops_per_second_now(ThreadPool& threads, Isa isa);

}  // namespace deltasane::kernel
