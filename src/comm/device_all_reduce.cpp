#include "comm/device_all_reduce.h"

#include <cuda_runtime_api.h>
#include <xxhash.h>

#include <algorithm>

#include "base/error.h"
#include "comm/host_all_reduce.h"
#include "comm/nccl_all_reduce.h"

namespace deltasane::comm {
namespace {

uint64_t uuid_hash(const Gpu& gpu) {
  cudaDeviceProp properties;
  check_cuda(cudaGetDeviceProperties(&properties, gpu.index()));
  return XXH3_64bits(properties.uuid.bytes, sizeof properties.uuid.bytes);
}

void check_distinct_gpus(Group& group, const Gpu& gpu) {
  const std::vector<uint64_t> all = group.all_gather(uuid_hash(gpu));
  for (auto one = all.begin(); one != all.end(); ++one)
    if (const auto before = std::find(all.begin(), one, *one); before != one)
      fail(Fault::usage, "device cuda: expected a GPU of its own for each process, found rank ",
           before - all.begin(), " and rank ", one - all.begin(), " of ", all.size(),
           " on the same; name the device cuda without a number, or set run.share_gpu = true");
}

}  // namespace

std::unique_ptr<DeviceAllReduce> device_all_reduce(Group& group, const Gpu& gpu,
                                                   const DeviceAllReduceSettings& settings) {
  const AllReduceBackend backend = settings.backend;
  if (group.size() == 1 && backend == AllReduceBackend::automatic) return nullptr;
  if (!settings.share_gpu) check_distinct_gpus(group, gpu);
  const int min_version = settings.share_gpu ? nccl_with_shared_gpus : 1;
  const bool by_nccl = backend == AllReduceBackend::automatic ? nccl_version() >= min_version
                                                              : backend == AllReduceBackend::nccl;
  return by_nccl ? nccl_all_reduce(group, gpu, settings.share_gpu) : host_all_reduce(group, gpu);
}

}  // namespace deltasane::comm
