#include "comm/device_all_reduce.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/random.h"
#include "comm/nccl_all_reduce.h"
#include "comm/single_group.h"
#include "support/errors.h"
#include "support/process.h"
#include "tensor/cuda/gpu_tensor.h"

namespace deltasane::comm {
namespace {

class GpuAllReduce : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (Gpu::count() == 0) GTEST_SKIP() << "this machine has no CUDA device";
    if (by_nccl() && nccl_version() == 0) GTEST_SKIP() << "this build has no NCCL";
  }
  static bool by_nccl() { return std::string_view(GetParam()) == "nccl"; }
  static AllReduceBackend backend() {
    return by_nccl() ? AllReduceBackend::nccl : AllReduceBackend::host;
  }
  static bool shares() { return !by_nccl() || nccl_version() >= nccl_with_shared_gpus; }
  static test::Outcome two_processes(const std::string& what) {
    return test::run_job("", 2, {DELTASANE_DEVICE_RANKS, GetParam(), what});
  }
};
INSTANTIATE_TEST_SUITE_P(Backends, GpuAllReduce, testing::Values("nccl", "host"),
                         [](const auto& one) { return std::string(one.param); });

void expect_output(const test::Outcome& outcome, const std::string& part) {
  EXPECT_NE(outcome.output.find(part), std::string::npos) << outcome.output;
}

TEST_P(GpuAllReduce, OfOneProcessIsTheIdentity) {
  const Gpu gpu(0);
  const auto group = single_group();
  EXPECT_EQ(device_all_reduce(*group, gpu, {}), nullptr);
  const auto reduction = device_all_reduce(*group, gpu, {backend(), false});
  Random random(3);
  constexpr int64_t count = 70001;
  Tensor<float> numbers({count});
  for (float& number : numbers.span()) number = float(random.normal());
  GpuTensor<float> on_gpu(gpu, numbers, "numbers");
  for (int turn = 0; turn < 2; ++turn) {
    reduction->begin(on_gpu.data() + 12345, count - 12345);
    reduction->begin(on_gpu.data(), 12345);
    reduction->finish();
    reduction->wait();
  }
  EXPECT_TRUE(std::ranges::equal(on_gpu.on_host(gpu).span(), numbers.span()));
}

TEST_P(GpuAllReduce, AddsUpOverTwoProcessesOnOneGpu) {
  if (!shares()) GTEST_SKIP() << "NCCL before 2.30 does not share a GPU between processes";
  const test::Outcome outcome = two_processes("sum");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  for (const char* rank : {"rank 0 of 2 by ", "rank 1 of 2 by "}) expect_output(outcome, rank);
  EXPECT_EQ(outcome.output.find("1 wrong"), std::string::npos) << outcome.output;
  expect_output(outcome, ": 0 wrong\n");
}

TEST_P(GpuAllReduce, FailsWhenAnotherProcessExits) {
  if (!shares()) GTEST_SKIP() << "NCCL before 2.30 does not share a GPU between processes";
  const test::Outcome outcome = two_processes("die");
  EXPECT_NE(outcome.exit_code, 0);
  expect_output(outcome, "rank 1 of 2: expected it to be running, found that it has exited");
}

TEST_P(GpuAllReduce, FailsOnASharedGpuUnlessAllowed) {
  const test::Outcome outcome = two_processes("alone");
  EXPECT_NE(outcome.exit_code, 0);
  expect_output(outcome,
                "expected a GPU of its own for each process, found rank 0 and rank 1 of 2 on the "
                "same");
}

// Adds every number to itself, as another process with the same numbers would.
class DoublingGroup : public Group {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  void begin_all_reduce(std::span<float> numbers) override {
    for (float& number : numbers) number += number;
  }
  void finish_all_reduces() override {}
  double all_reduce(double number) override { return number; }
  std::vector<uint64_t> all_gather(uint64_t number) override { return {number}; }
  void broadcast(std::span<std::byte>) override {}
};

// Work enqueued before is summed, work enqueued after sees the sum, with no wait in between.
TEST(GpuHostAllReduce, IsOrderedWithTheStream) {
  if (Gpu::count() == 0) GTEST_SKIP() << "this machine has no CUDA device";
  const Gpu gpu(0);
  DoublingGroup group;
  const auto reduction = device_all_reduce(group, gpu, {AllReduceBackend::host, false});
  constexpr int64_t count = int64_t{1} << 22;
  constexpr uint64_t bytes = count * sizeof(float);
  GpuTensor<float> first(gpu, {count}, "numbers"), second(gpu, {count}, "numbers");
  std::vector<float> ones(count, 1.0f), found(count);
  first.upload(ones, gpu);
  for (int turn = 0; turn < 4; ++turn) {
    zero_on_gpu(second.data(), bytes, gpu);
    copy_on_gpu(second.data(), first.data(), bytes, gpu);
    reduction->begin(second.data(), count);
    reduction->finish();
    copy_on_gpu(first.data(), second.data(), bytes, gpu);
  }
  first.download(found, gpu);
  EXPECT_EQ(found, std::vector<float>(count, 16.0f));
}

TEST(GpuNcclAllReduce, IsUnsupportedWhereItIsNotBuilt) {
  if (Gpu::count() == 0) GTEST_SKIP() << "this machine has no CUDA device";
  if (nccl_version() > 0) GTEST_SKIP() << "this build has NCCL";
  const Gpu gpu(0);
  const auto group = single_group();
  EXPECT_FAULT(device_all_reduce(*group, gpu, {AllReduceBackend::nccl, false}), Fault::device,
               "expected a program built with NCCL, found one without");
}

}  // namespace
}  // namespace deltasane::comm
