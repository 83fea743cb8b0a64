// The GPU kernels of the recurrence against the definition, on the host: by the same check as on a
// GPU, with fewer and smaller cases.
#include <gtest/gtest.h>

#include "base/half.h"
#include "emulation/block.h"
#include "kernel/delta_rule/bench/cuda_check.h"
#include "kernel/sane/cuda.h"
#include "support/errors.h"

namespace deltasane::kernel::cuda {
namespace {

struct Taus {
  double low, high;
};
constexpr Taus none{0, 0}, strong{1.4, 1.6}, usual{7, 9}, moderate{12, 16}, weak{30, 50},
    weakest{150, 200};
constexpr Taus huge{1e10, 1e11};
constexpr Taus unbounded{unbounded_tau, unbounded_tau};  // of chunks that hold padding
constexpr Taus changing{0.4, 12};  // states are now large relative to it and now tiny

template <class Real>
class Recurrence : public testing::Test {
 protected:
  void TearDown() override { emulation::emulated_gpu() = {}; }

  void check(ProblemShape shape, const std::vector<Taus>& all) {
    const Gpu gpu(0);
    for (const Taus& taus : all) {
      shape.tau_low = taus.low, shape.tau_high = taus.high, shape.stagger = 0;
      for (const std::string& fault : check_delta_rule<Real>(shape, ++seed_, gpu))
        ADD_FAILURE() << fault;
    }
  }

 private:
  uint64_t seed_ = 0;
};
using Types = testing::Types<float, bf16>;
TYPED_TEST_SUITE(Recurrence, Types);

TYPED_TEST(Recurrence, TileAfterTile) {
  emulation::emulated_gpu().multiprocessors = 4;  // as many as heads
  this->check({.batch = 2, .time = 37, .heads = 2},
              {none, strong, moderate, weak, weakest, unbounded});
  emulation::emulated_gpu().multiprocessors = 1;
  this->check({.time = 133}, {usual, changing, huge});  // several rounds of the stages
}
TYPED_TEST(Recurrence, OfALongSequenceEqualsItsParts) {
  for (const int multiprocessors : {24, 1}) {
    emulation::emulated_gpu().multiprocessors = multiprocessors;  // one head is few, or many
    EXPECT_TRUE(equals_its_parts<TypeParam>(long_sequence(1), 20 * 16, Gpu(0)));
  }
}
TYPED_TEST(Recurrence, OfDifferentLengthsEqualsEachAlone) {
  constexpr int32_t lengths[] = {133, 16, 1, 37};
  EXPECT_TRUE(lengths_are_alone<TypeParam>(
      {.batch = 4, .time = 133, .heads = 2, .tau_low = 0.4, .tau_high = 12, .stagger = 0}, lengths,
      Gpu(0)));
}

TYPED_TEST(Recurrence, WithLargeStates) {
  this->check({.time = 33, .state_scale = 30}, {strong, usual});
  emulation::emulated_gpu().multiprocessors = 4;
  this->check({.time = 33, .heads = 2, .state_scale = 30}, {strong, usual});
}
TYPED_TEST(Recurrence, LessThanATile) {
  this->check({.time = 7}, {none, strong});
  emulation::emulated_gpu().multiprocessors = 4;
  this->check({.time = 1, .heads = 2}, {none, strong});
}
TYPED_TEST(Recurrence, FewHeads) {
  this->check({.time = 69}, {none, strong, usual, moderate, weak, weakest, unbounded});
}
TYPED_TEST(Recurrence, FewHeadsOfWholeTiles) {
  this->check({.time = 64}, {none, strong, changing});
  this->check({.time = 35 * 16}, {usual});  // more tiles than a warp has lanes
}
TYPED_TEST(Recurrence, TokenByToken) {
  this->check({.time = 1, .heads = 2, .position = 15}, {strong});
  this->check({.batch = 2, .time = 37, .heads = 3, .position = 11}, {none, strong, weakest});
  this->check({.time = 50, .heads = 2, .chunk = 12}, {usual});
}
// With more blocks on a multiprocessor a kernel with fewer registers runs.
TYPED_TEST(Recurrence, TokenByTokenOnACrowdedGpu) {
  emulation::emulated_gpu().multiprocessors = 1;
  this->check({.batch = 2, .time = 7, .heads = 2, .position = 11}, {strong});
}
// Backward, blocks share heads, however many there are, where a block has too little shared memory
// for a head: of floats here.
TYPED_TEST(Recurrence, ManyHeadsWithLessSharedMemory) {
  emulation::emulated_gpu().multiprocessors = 4, emulation::emulated_gpu().shared = 163 * 1024;
  this->check({.batch = 2, .time = 37, .heads = 2}, {none, strong, usual});
}
// The least that GPUs since compute capability 8.0 have.
TYPED_TEST(Recurrence, In99KibOfSharedMemory) {
  emulation::emulated_gpu().shared = 99 * 1024;
  this->check({.time = 33, .heads = 2, .position = 8}, {strong});
  this->check({.time = 80}, {none, strong});
  emulation::emulated_gpu().multiprocessors = 4;
  this->check({.batch = 2, .time = 37, .heads = 2}, {none, strong});
  this->check({.batch = 2, .time = 69, .heads = 2}, {changing});
  this->check({.time = 33, .heads = 2, .state_scale = 30}, {strong});
  emulation::emulated_gpu().capability = 86;
  this->check({.time = 37, .heads = 2}, {strong});
}
TYPED_TEST(Recurrence, OfDifferentLengthsIn99KibOfSharedMemory) {
  emulation::emulated_gpu().shared = 99 * 1024;
  constexpr int32_t lengths[] = {133, 16, 1, 37};
  EXPECT_TRUE(lengths_are_alone<TypeParam>(
      {.batch = 4, .time = 133, .heads = 2, .tau_low = 0.4, .tau_high = 12, .stagger = 0}, lengths,
      Gpu(0)));
}
TYPED_TEST(Recurrence, RefusesLessSharedMemory) {
  emulation::emulated_gpu().shared = 48 * 1024;
  EXPECT_FAULT(this->check({.time = 80}, {strong}), Fault::device, "KiB of shared memory a block");
}
// Before compute capability 9.0 there is no stmatrix, and there are no bulk copies.
TYPED_TEST(Recurrence, OnAnOlderGpu) {
  emulation::emulated_gpu().capability = 80;
  this->check({.time = 21}, {strong});
  emulation::emulated_gpu().multiprocessors = 4;
  this->check({.time = 69, .heads = 2}, {strong, usual});
}

}  // namespace
}  // namespace deltasane::kernel::cuda
