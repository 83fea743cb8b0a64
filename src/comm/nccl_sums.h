// Sums by NCCL, between the GPUs. The group only carries the name that its processes meet under.
// Built without NCCL they are refused, and the message says what to do.
#pragma once

#include "comm/device_sums.h"

namespace deltasane::comm {

int nccl_version();                             // 23203 for 2.32.3; 0 where this was built without
inline constexpr int nccl_that_shares = 23000;  // the first that puts two processes on one GPU

std::unique_ptr<DeviceSums> nccl_sums(Group& group, const Gpu& gpu, bool share_gpu);

}  // namespace deltasane::comm
