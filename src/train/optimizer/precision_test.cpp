#include "train/optimizer/precision.h"

#include <gtest/gtest.h>

#include "support/errors.h"

namespace deltasane::train {
namespace {

TEST(Precision, HasNames) {
  EXPECT_EQ(precision_named("bf16"), Precision::bf16);
  EXPECT_EQ(name_of(Precision::fp32), "fp32");
  EXPECT_FAULT(precision_named("fp16"), Fault::usage,
               "optimizer.precision: expected fp32 or bf16, found 'fp16'");
}

}  // namespace
}  // namespace deltasane::train
