// The emulation itself: it computes what a GPU computes, and detects faults of kernels.
#include <cuda_bf16.h>
#include <cuda_pipeline.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "emulation/block.h"
#include "emulation/warp.h"
#include "support/errors.h"

namespace deltasane::emulation {
namespace {

constexpr Schedule schedules[] = {Schedule::rising, Schedule::falling, Schedule::shuffled};
constexpr unsigned threads = 128;

alignas(16) float memory[1024];
[[maybe_unused]] const bool known = register_shared(memory, sizeof(memory));

class Emulation : public testing::Test {
 protected:
  void TearDown() override { emulated_gpu() = {}; }

  static void run(const std::function<void()>& thread) {
    run_kernel(thread, {}, {threads}, sizeof(memory));
  }
  // In how many schedules every thread gets the expected number. One shuffle may miss a fault.
  static int right_schedules(const std::function<float()>& thread,
                             const std::function<float(unsigned)>& expected) {
    int right = 0;
    for (const Schedule schedule : schedules) {
      emulated_gpu().schedule = schedule;
      bool all = true;
      for (const unsigned seed : {1, 2, 3, 4, 5, 6, 7, 8}) {
        emulated_gpu().seed = seed;
        std::vector<float> found(threads);
        run([&] { found[threadIdx.x] = thread(); });
        for (unsigned t = 0; t < threads; ++t) all = all && found[t] == expected(t);
      }
      right += all;
    }
    return right;
  }
};

TEST_F(Emulation, DetectsAMissingBarrier) {
  const auto exchange = [](void (*barrier)()) {
    return [barrier] {
      memory[threadIdx.x] = float(threadIdx.x);
      barrier();
      return memory[std::min(threadIdx.x + 32, threads - 1)];
    };
  };
  const auto expected = [](unsigned t) { return float(std::min(t + 32, threads - 1)); };
  EXPECT_EQ(right_schedules(exchange([] { __syncthreads(); }), expected), 3);
  EXPECT_LT(right_schedules(exchange([] { __syncwarp(); }), expected), 3);
  EXPECT_LT(right_schedules(exchange([] {}), expected), 3);
}

TEST_F(Emulation, DetectsAMissingWarpBarrier) {
  const auto exchange = [](bool barrier) {
    return [barrier] {
      memory[threadIdx.x] = float(threadIdx.x);
      if (barrier) __syncwarp();
      return memory[threadIdx.x | 1];
    };
  };
  const auto expected = [](unsigned t) { return float(t | 1); };
  EXPECT_EQ(right_schedules(exchange(true), expected), 3);
  EXPECT_LT(right_schedules(exchange(false), expected), 3);
}

TEST_F(Emulation, HasNamedBarriers) {
  const auto pairs = [] {
    memory[threadIdx.x] = float(threadIdx.x);
    barrier_sync(1 + threadIdx.x / 64, 64);
    return memory[threadIdx.x ^ 32];
  };
  EXPECT_EQ(right_schedules(pairs, [](unsigned t) { return float(t ^ 32); }), 3);
}

// The first half writes, the second reads.
TEST_F(Emulation, HasArrivalsAtNamedBarriers) {
  const auto pass_on = [](bool arrives) {
    return [arrives] {
      constexpr unsigned half = threads / 2;
      if (threadIdx.x < half) {
        memory[threadIdx.x] = 1;
        if (arrives) barrier_arrive(1, threads);
        return 1.0f;
      }
      if (arrives) barrier_sync(1, threads);
      return memory[threadIdx.x - half];
    };
  };
  const auto expected = [](unsigned) { return 1.0f; };
  EXPECT_EQ(right_schedules(pass_on(true), expected), 3);
  EXPECT_LT(right_schedules(pass_on(false), expected), 3);
}

uint64_t& mbarrier_in_memory() { return *reinterpret_cast<uint64_t*>(memory + threads); }

// One warp writes, the others read, twice.
TEST_F(Emulation, DetectsAMissingMbarrierWait) {
  const auto publish = [](bool wait, bool sync) {
    return [wait, sync] {
      uint64_t& written = mbarrier_in_memory();
      if (threadIdx.x == 0) mbarrier_init(&written, 1);
      __syncthreads();
      float sum = 0;
      for (unsigned phase = 0; phase < 2; ++phase) {
        if (threadIdx.x < 32) {
          memory[threadIdx.x] = float(phase + 1);
          if (sync) __syncwarp();
          if (threadIdx.x == 0) mbarrier_arrive(&written);
        }
        if (wait) mbarrier_wait(&written, phase);
        sum = 10 * sum + memory[threadIdx.x % 32];
        __syncthreads();
      }
      return sum;
    };
  };
  const auto expected = [](unsigned) { return 12.0f; };
  EXPECT_EQ(right_schedules(publish(true, true), expected), 3);
  EXPECT_LT(right_schedules(publish(true, false), expected), 3);
  EXPECT_LT(right_schedules(publish(false, true), expected), 3);
}

TEST_F(Emulation, DetectsMbarriersThatDoNotComplete) {
  EXPECT_FAULT(run([] {
                 if (threadIdx.x == 0) mbarrier_init(&mbarrier_in_memory(), 2);
                 __syncthreads();
                 if (threadIdx.x == 0) mbarrier_arrive(&mbarrier_in_memory());
                 if (threadIdx.x >= 96) mbarrier_wait(&mbarrier_in_memory(), 0);
               }),
               Fault::device, "warp 3: waits for an mbarrier with 1 of 2 arrivals");
  EXPECT_FAULT(run([] { mbarrier_wait(&mbarrier_in_memory(), 0); }), Fault::device,
               "an mbarrier that is not initialised");
}

TEST_F(Emulation, DetectsDeadlocks) {
  EXPECT_FAULT(run([] {
                 if (threadIdx.x < 32) barrier_sync(1, 64);
               }),
               Fault::device, "deadlock; barrier 1: 32 threads of 64");
  EXPECT_FAULT(run([] {
                 if (threadIdx.x != 5) __syncwarp();
               }),
               Fault::device, "deadlock; warp 0: 31 lanes at syncwarp");
  EXPECT_FAULT(run([] {
                 while (!__ballot_sync(~0u, 0)) wait_for_others();
               }),
               Fault::device, "deadlock");
  run([] { __syncthreads(); });  // the next kernel runs
}

TEST_F(Emulation, LetsThreadsExitBeforeABarrierOfTheBlock) {
  run([] {
    if (threadIdx.x >= 32) __syncthreads();
  });
}

TEST_F(Emulation, DetectsDivergentCollectives) {
  EXPECT_FAULT(run([] {
                 if (threadIdx.x % 2)
                   __syncwarp();
                 else
                   __all_sync(~0u, 1);
               }),
               Fault::device, "while lanes of its warp wait at");
}

TEST_F(Emulation, DetectsBarriersWithDifferentCounts) {
  emulated_gpu().schedule = Schedule::falling;
  EXPECT_FAULT(run([] { barrier_sync(1, threadIdx.x < 64 ? 64 : 128); }), Fault::device,
               "others at one of");
}

TEST_F(Emulation, HasBlocksOfTwoDimensions) {
  constexpr unsigned rows = 4;
  std::vector<int> found(32 * rows);
  run_kernel([&] { ++found[threadIdx.y * blockDim.x + threadIdx.x]; }, {}, {32, rows}, 0);
  EXPECT_EQ(found, std::vector<int>(32 * rows, 1));
  EXPECT_EQ(blockDim.y, rows);
}

TEST_F(Emulation, DetectsWritesBeyondSharedMemory) {
  const auto write = [] { memory[threadIdx.x] = 1; };
  run_kernel(write, {}, {threads}, threads * sizeof(float));
  EXPECT_FAULT(run_kernel(write, {}, {threads}, threads * sizeof(float) - 1), Fault::device,
               "wrote beyond its 511 bytes");
}

TEST_F(Emulation, DetectsMisalignedAddresses) {
  EXPECT_FAULT(run([] { __ldg(reinterpret_cast<const float4*>(memory + 1)); }), Fault::device,
               "16 bytes at an address that is not a multiple of that");
}

TEST_F(Emulation, DetectsCopiesThatAreNotWaitedFor) {
  const std::vector<float> from(threads, 7.0f);
  const auto copy = [&](size_t pending) {
    return [&from, pending] {
      __pipeline_memcpy_async(&memory[threadIdx.x], &from[threadIdx.x], 4);
      __pipeline_commit();
      __pipeline_wait_prior(pending);
      return memory[threadIdx.x];
    };
  };
  EXPECT_EQ(right_schedules(copy(0), [](unsigned) { return 7.0f; }), 3);
  EXPECT_LT(right_schedules(copy(1), [](unsigned) { return 7.0f; }), 3);
}

TEST_F(Emulation, DetectsCopiesThatStartTooEarly) {
  const std::vector<float> from(threads, 7.0f);
  const auto exchange = [&](bool barrier) {
    return [&from, barrier] {
      memory[threadIdx.x] = 1;
      __syncwarp();
      const float neighbour = memory[threadIdx.x ^ 1];
      if (barrier) __syncwarp();
      __pipeline_memcpy_async(&memory[threadIdx.x], &from[threadIdx.x], 4);
      __pipeline_commit();
      __pipeline_wait_prior(0);
      return neighbour;
    };
  };
  EXPECT_EQ(right_schedules(exchange(true), [](unsigned) { return 1.0f; }), 3);
  EXPECT_LT(right_schedules(exchange(false), [](unsigned) { return 1.0f; }), 3);
}

// One warp copies for the others, who wait for its copies by an mbarrier.
TEST_F(Emulation, DetectsArrivalsThatAreNotForCopies) {
  static const std::vector<float> from(threads, 7.0f);
  const auto copy = [](bool after_copies) {
    return [after_copies] {
      uint64_t& full = mbarrier_in_memory();
      if (threadIdx.x == 0) mbarrier_init(&full, 32);
      __syncthreads();
      if (threadIdx.x < 32) {
        copy_async(&memory[threadIdx.x], &from[threadIdx.x], 4, 0);
        after_copies ? arrive_after_copies(&full) : mbarrier_arrive(&full);
      }
      mbarrier_wait(&full, 0);
      return memory[threadIdx.x % 32];
    };
  };
  const auto expected = [](unsigned) { return 7.0f; };
  EXPECT_EQ(right_schedules(copy(true), expected), 3);
  EXPECT_LT(right_schedules(copy(false), expected), 3);
}

TEST_F(Emulation, ShufflesAndVotes) {
  const auto lanes = [](auto&& use) {
    return right_schedules([&] { return float(use(threadIdx.x % 32)); },
                           [](unsigned) { return 1; });
  };
  EXPECT_EQ(lanes([](unsigned l) { return __shfl_sync(~0u, l, 3) == 3; }), 3);
  EXPECT_EQ(lanes([](unsigned l) { return __shfl_xor_sync(~0u, l, 5) == (l ^ 5); }), 3);
  EXPECT_EQ(lanes([](unsigned l) { return __shfl_up_sync(~0u, l, 4) == (l < 4 ? l : l - 4); }), 3);
  EXPECT_EQ(lanes([](unsigned l) { return __shfl_down_sync(~0u, l, 4) == (l < 28 ? l + 4 : l); }),
            3);
  EXPECT_EQ(lanes([](unsigned l) { return !__all_sync(~0u, l != 9); }), 3);
  EXPECT_EQ(lanes([](unsigned) { return __all_sync(~0u, 1); }), 3);
}

// 16 x 16 numbers of a warp in shared memory, from `first` on.
__nv_bfloat16* numbers(int first) { return reinterpret_cast<__nv_bfloat16*>(memory) + first; }
float small(int i, int j, int which) { return float((i * 7 + j * 3 + which * 5) % 11 - 5); }

TEST_F(Emulation, MultipliesMatrices) {
  for (const Schedule schedule : schedules) {
    emulated_gpu().schedule = schedule;
    bool right = true;
    run_kernel(
        [&] {
          const int lane = int(threadIdx.x), line = lane / 4, pair = lane % 4 * 2;
          __nv_bfloat16 *const a = numbers(0), *const b = numbers(256);
          for (int i = lane; i < 256; i += 32) {
            a[i] = __float2bfloat16_rn(small(i / 16, i % 16, 0));
            b[i] = __float2bfloat16_rn(small(i / 16, i % 16, 1));
          }
          __syncwarp();
          uint32_t left[4], right_part[4];
          const int row = lane % 16, column = lane / 16 * 8;
          ldmatrix(left, shared_address(a + row * 16 + column), false);
          ldmatrix(right_part, shared_address(b + row * 16 + column), true);
          float c[2][4] = {{1, 2, 3, 4}, {5, 6, 7, 8}};
          for (int p = 0; p < 2; ++p) mma(c[p], left, right_part[2 * p], right_part[2 * p + 1]);
          for (int p = 0; p < 2; ++p)
            for (int i = 0; i < 4; ++i) {
              float sum = float(1 + 4 * p + i);
              for (int k = 0; k < 16; ++k)
                sum += small(line + i / 2 * 8, k, 0) * small(k, 8 * p + pair + i % 2, 1);
              if (c[p][i] != sum) right = false;
            }
        },
        {}, {32}, sizeof(memory));
    EXPECT_TRUE(right);
  }
}

TEST_F(Emulation, StoresAndTransposesMatrices) {
  bool right = true;
  run_kernel(
      [&] {
        const int lane = int(threadIdx.x), row = lane % 16, column = lane / 16 * 8;
        __nv_bfloat16 *const from = numbers(0), *const to = numbers(256),
                             *const transposed = numbers(512);
        for (int i = lane; i < 256; i += 32) from[i] = {uint16_t(i)};
        __syncwarp();
        uint32_t x[4];
        ldmatrix(x, shared_address(from + row * 16 + column), false);
        stmatrix(shared_address(to + row * 16 + column), x, false);
        stmatrix(shared_address(transposed + row * 16 + column), x, true);
        __syncwarp();
        for (int i = lane; i < 256; i += 32) {
          const int corner = i / 128 * 128 + i / 8 % 2 * 8, line = i / 16 % 8, place = i % 8;
          if (to[i].bits != i || transposed[i].bits != corner + place * 16 + line) right = false;
        }
        uint32_t transposes[4];
        ldmatrix(transposes, shared_address(from + row * 16 + column), true);
        for (int m = 0; m < 4; ++m)
          if (movmatrix(x[m]) != transposes[m]) right = false;
      },
      {}, {32}, sizeof(memory));
  EXPECT_TRUE(right);
}

}  // namespace
}  // namespace deltasane::emulation
