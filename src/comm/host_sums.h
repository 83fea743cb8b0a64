// Sums through the host: numbers are copied from the GPU, added up by the group, and copied back.
// Each copy is made while the GPU works on; the sums begin when the host has time for them.
#pragma once

#include "comm/device_sums.h"

namespace deltasane::comm {

std::unique_ptr<DeviceSums> host_sums(Group& group, const Gpu& gpu);

}  // namespace deltasane::comm
