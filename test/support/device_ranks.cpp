// Test program: one process of a job that all-reduces buffers of its GPU. All processes share GPU
// 0.
//   device_ranks BACKEND [alone|die]
// alone: no GPU may be shared. die: rank 1 exits before the second reduction.
#include <cstdlib>
#include <iostream>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "comm/device_all_reduce.h"
#include "tensor/cuda/gpu_tensor.h"

namespace {

using namespace deltasane;

void reduce(std::string_view backend, std::string_view what) {
  const auto group = comm::join();
  const int rank = group->rank();
  const Gpu gpu(0);
  constexpr int64_t count = 100001;
  Tensor<float> numbers({count});
  for (int64_t i = 0; i < count; ++i) numbers[i] = float((rank + 1) * (i % 1000));
  GpuTensor<float> on_gpu(gpu, numbers, "numbers");
  using Backend = comm::AllReduceBackend;
  const auto reduction = comm::device_all_reduce(
      *group, gpu, {backend == "nccl" ? Backend::nccl : Backend::host, what != "alone"});
  for (int turn = 0; turn < 3; ++turn) {
    if (what == "die" && rank == 1 && turn == 1) std::abort();
    reduction->begin(on_gpu.data() + count / 3, count - count / 3);
    reduction->begin(on_gpu.data(), count / 3);
    reduction->finish();
    reduction->wait();
  }
  on_gpu.download(numbers.span(), gpu);
  float factor = 0;  // three sums over all ranks
  for (int other = 0; other < group->size(); ++other) factor += float(other + 1);
  factor *= float(group->size() * group->size());
  int64_t wrong = 0;
  for (int64_t i = 0; i < count; ++i) wrong += numbers[i] != factor * float(i % 1000);
  std::cout << cat("rank ", rank, " of ", group->size(), " by ", reduction->name(), ": ", wrong,
                   " wrong\n");
}

}  // namespace

int main(int argc, char** argv) {
  try {
    reduce(argc > 1 ? argv[1] : "", argc > 2 ? argv[2] : "");
    return 0;
  } catch (const deltasane::Error& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
}
