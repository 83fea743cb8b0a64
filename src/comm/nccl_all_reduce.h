// All-reduce by NCCL. The group only broadcasts the communicator's id. Unsupported in builds
// without NCCL; the message says what to do.
#pragma once

#include "comm/device_all_reduce.h"

namespace deltasane::comm {

int nccl_version();                                  // 23203 for 2.32.3; 0 in builds without NCCL
inline constexpr int nccl_with_shared_gpus = 23000;  // the first with two processes on one GPU

std::unique_ptr<DeviceAllReduce> nccl_all_reduce(Group& group, const Gpu& gpu, bool share_gpu);

}  // namespace deltasane::comm
