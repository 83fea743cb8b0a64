#include "model/device.h"

#include <gtest/gtest.h>

#include "support/errors.h"
#include "tensor/cuda/gpu.h"

namespace deltasane {
namespace {

TEST(Device, HasOneNameForEachThing) {
  EXPECT_EQ(device_named("cpu"), Device{});
  EXPECT_EQ(to_string(Device{}), "cpu");
  EXPECT_EQ(to_string(Device{2}), "cuda:2");
  for (const char* name :
       {"", "CPU", "gpu", "cuda:", "cuda:-1", "cuda:1x", "cuda: 1", "cuda1", "cuda:99999999999"})
    EXPECT_FAULT(device_named(name), Fault::usage,
                 cat("device: expected cpu, cuda or cuda:N, found '", name, "'"));
}

TEST(Device, IsRefusedWhereTheBuildHasNoCuda) {
  if (built_with_cuda) {
    EXPECT_EQ(device_named("cuda"), Device{0});
    EXPECT_EQ(device_named("cuda:3"), Device{3});
  } else {
    EXPECT_FAULT(device_named("cuda:0"), Fault::usage,
                 "device cuda:0: this build has no CUDA backend; build with make cuda");
  }
}

}  // namespace
}  // namespace deltasane
