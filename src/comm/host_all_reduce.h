// All-reduce staged through the host: copy from the GPU, reduce by the group, copy back. The copies
// overlap with compute; the reductions run in finish().
#pragma once

#include "comm/device_all_reduce.h"

namespace deltasane::comm {

std::unique_ptr<DeviceAllReduce> host_all_reduce(Group& group, const Gpu& gpu);

}  // namespace deltasane::comm
