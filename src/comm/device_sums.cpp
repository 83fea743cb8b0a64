#include "comm/device_sums.h"

#include <cuda_runtime_api.h>
#include <xxhash.h>

#include <algorithm>

#include "base/error.h"
#include "comm/host_sums.h"
#include "comm/nccl_sums.h"

namespace deltasane::comm {
namespace {

uint64_t number_of(const Gpu& gpu) {
  cudaDeviceProp properties;
  check_cuda(cudaGetDeviceProperties(&properties, gpu.index()));
  return XXH3_64bits(properties.uuid.bytes, sizeof properties.uuid.bytes);
}

void expect_own_gpus(Group& group, const Gpu& gpu) {
  const std::vector<uint64_t> all = group.gather(number_of(gpu));
  for (auto one = all.begin(); one != all.end(); ++one)
    if (const auto before = std::find(all.begin(), one, *one); before != one)
      fail(Fault::usage, "device cuda: expected a GPU of its own for each process, found rank ",
           before - all.begin(), " and rank ", one - all.begin(), " of ", all.size(),
           " on the same; use --device cuda without a number, or run.share_gpu = true");
}

}  // namespace

std::unique_ptr<DeviceSums> device_sums(Group& group, const Gpu& gpu,
                                        const DeviceSumsSettings& settings) {
  if (group.size() == 1 && settings.by == SumsBy::best) return nullptr;
  if (!settings.share_gpu) expect_own_gpus(group, gpu);
  const int least = settings.share_gpu ? nccl_that_shares : 1;
  const bool by_nccl =
      settings.by == SumsBy::best ? nccl_version() >= least : settings.by == SumsBy::nccl;
  return by_nccl ? nccl_sums(group, gpu, settings.share_gpu) : host_sums(group, gpu);
}

}  // namespace deltasane::comm
