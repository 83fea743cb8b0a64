// The host as a GPU: it computes what one computes, and sees what is wrong with a kernel.
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

constexpr Order orders[] = {Order::rising, Order::falling, Order::shuffled};
constexpr unsigned threads = 128;

alignas(16) float memory[1024];
[[maybe_unused]] const bool known = share(memory, sizeof(memory));

class Emulation : public testing::Test {
 protected:
  void TearDown() override { machine() = {}; }

  static void run(const std::function<void()>& thread) {
    run_kernel(thread, {}, {threads}, sizeof(memory));
  }
  // In how many orders every thread finds the number that it should.
  static int right_orders(const std::function<float()>& thread,
                          const std::function<float(unsigned)>& expected) {
    int right = 0;
    for (const Order order : orders) {
      machine().order = order;
      std::vector<float> found(threads);
      run([&] { found[threadIdx.x] = thread(); });
      bool all = true;
      for (unsigned t = 0; t < threads; ++t) all = all && found[t] == expected(t);
      right += all;
    }
    return right;
  }
};

TEST_F(Emulation, SeesABarrierThatIsMissing) {
  const auto exchange = [](void (*meet)()) {
    return [meet] {
      memory[threadIdx.x] = float(threadIdx.x);
      meet();
      return memory[std::min(threadIdx.x + 32, threads - 1)];
    };
  };
  const auto expected = [](unsigned t) { return float(std::min(t + 32, threads - 1)); };
  EXPECT_EQ(right_orders(exchange([] { __syncthreads(); }), expected), 3);
  EXPECT_LT(right_orders(exchange([] { __syncwarp(); }), expected), 3);
  EXPECT_LT(right_orders(exchange([] {}), expected), 3);
}

TEST_F(Emulation, SeesABarrierOfAWarpThatIsMissing) {
  const auto exchange = [](bool meet) {
    return [meet] {
      memory[threadIdx.x] = float(threadIdx.x);
      if (meet) __syncwarp();
      return memory[threadIdx.x | 1];
    };
  };
  const auto expected = [](unsigned t) { return float(t | 1); };
  EXPECT_EQ(right_orders(exchange(true), expected), 3);
  EXPECT_LT(right_orders(exchange(false), expected), 3);
}

TEST_F(Emulation, HasBarriersOfSomeThreads) {
  const auto pairs = [] {
    memory[threadIdx.x] = float(threadIdx.x);
    meet_threads(1 + threadIdx.x / 64, 64);
    return memory[threadIdx.x ^ 32];
  };
  EXPECT_EQ(right_orders(pairs, [](unsigned t) { return float(t ^ 32); }), 3);
}

uint64_t& signal_in_memory() { return *reinterpret_cast<uint64_t*>(memory + threads); }

// One warp writes, the others read, twice.
TEST_F(Emulation, SeesASignalThatIsNotWaitedFor) {
  const auto tell = [](bool wait, bool together) {
    return [wait, together] {
      uint64_t& told = signal_in_memory();
      if (threadIdx.x == 0) set_up_signal(&told, 1);
      __syncthreads();
      float sum = 0;
      for (unsigned round = 0; round < 2; ++round) {
        if (threadIdx.x < 32) {
          memory[threadIdx.x] = float(round + 1);
          if (together) __syncwarp();
          if (threadIdx.x == 0) arrive_at_signal(&told);
        }
        if (wait) wait_for_signal(&told, round);
        sum = 10 * sum + memory[threadIdx.x % 32];
        __syncthreads();
      }
      return sum;
    };
  };
  const auto expected = [](unsigned) { return 12.0f; };
  EXPECT_EQ(right_orders(tell(true, true), expected), 3);
  EXPECT_LT(right_orders(tell(true, false), expected), 3);
  EXPECT_LT(right_orders(tell(false, true), expected), 3);
}

TEST_F(Emulation, SeesSignalsThatAreNotGiven) {
  EXPECT_FAULT(run([] {
                 if (threadIdx.x == 0) set_up_signal(&signal_in_memory(), 2);
                 __syncthreads();
                 if (threadIdx.x == 0) arrive_at_signal(&signal_in_memory());
                 if (threadIdx.x >= 96) wait_for_signal(&signal_in_memory(), 0);
               }),
               Fault::device, "warp 3: waits for a signal that 1 of 2 arrived at");
  EXPECT_FAULT(run([] { wait_for_signal(&signal_in_memory(), 0); }), Fault::device,
               "a signal that is not set up");
}

TEST_F(Emulation, SeesThreadsThatWaitForEver) {
  EXPECT_FAULT(run([] {
                 if (threadIdx.x < 32) meet_threads(1, 64);
               }),
               Fault::device, "no thread can go on; barrier 1: 32 threads of 64");
  EXPECT_FAULT(run([] {
                 if (threadIdx.x != 5) __syncwarp();
               }),
               Fault::device, "no thread can go on; warp 0: 31 lanes at a warp's barrier");
  run([] { __syncthreads(); });  // and goes on with the next kernel
}

TEST_F(Emulation, LetsThreadsEndBeforeABarrierOfAll) {
  run([] {
    if (threadIdx.x >= 32) __syncthreads();
  });
}

TEST_F(Emulation, SeesLanesAtDifferentInstructions) {
  EXPECT_FAULT(run([] {
                 if (threadIdx.x % 2)
                   __syncwarp();
                 else
                   __all_sync(~0u, 1);
               }),
               Fault::device, "while lanes of its warp wait at");
}

TEST_F(Emulation, SeesBarriersThatDoNotAgree) {
  machine().order = Order::falling;
  EXPECT_FAULT(run([] { meet_threads(1, threadIdx.x < 64 ? 64 : 128); }), Fault::device,
               "others for");
}

TEST_F(Emulation, HasLinesOfThreads) {
  constexpr unsigned lines = 4;
  std::vector<int> found(32 * lines);
  run_kernel([&] { ++found[threadIdx.y * blockDim.x + threadIdx.x]; }, {}, {32, lines}, 0);
  EXPECT_EQ(found, std::vector<int>(32 * lines, 1));
  EXPECT_EQ(blockDim.y, lines);
}

TEST_F(Emulation, SeesWritesBeyondSharedMemory) {
  const auto write = [] { memory[threadIdx.x] = 1; };
  run_kernel(write, {}, {threads}, threads * sizeof(float));
  EXPECT_FAULT(run_kernel(write, {}, {threads}, threads * sizeof(float) - 1), Fault::device,
               "wrote beyond its 511 bytes");
}

TEST_F(Emulation, SeesAddressesThatAreNotAligned) {
  EXPECT_FAULT(run([] { __ldg(reinterpret_cast<const float4*>(memory + 1)); }), Fault::device,
               "16 bytes at an address that is no multiple of that");
}

TEST_F(Emulation, SeesCopiesThatAreNotWaitedFor) {
  const std::vector<float> from(threads, 7.0f);
  const auto copy = [&](size_t younger) {
    return [&from, younger] {
      __pipeline_memcpy_async(&memory[threadIdx.x], &from[threadIdx.x], 4);
      __pipeline_commit();
      __pipeline_wait_prior(younger);
      return memory[threadIdx.x];
    };
  };
  EXPECT_EQ(right_orders(copy(0), [](unsigned) { return 7.0f; }), 3);
  EXPECT_LT(right_orders(copy(1), [](unsigned) { return 7.0f; }), 3);
}

TEST_F(Emulation, SeesCopiesThatAreAskedForTooEarly) {
  const std::vector<float> from(threads, 7.0f);
  const auto exchange = [&](bool meet) {
    return [&from, meet] {
      memory[threadIdx.x] = 1;
      __syncwarp();
      const float neighbour = memory[threadIdx.x ^ 1];
      if (meet) __syncwarp();
      __pipeline_memcpy_async(&memory[threadIdx.x], &from[threadIdx.x], 4);
      __pipeline_commit();
      __pipeline_wait_prior(0);
      return neighbour;
    };
  };
  EXPECT_EQ(right_orders(exchange(true), [](unsigned) { return 1.0f; }), 3);
  EXPECT_LT(right_orders(exchange(false), [](unsigned) { return 1.0f; }), 3);
}

TEST_F(Emulation, ShufflesAndVotes) {
  const auto lanes = [](auto&& use) {
    return right_orders([&] { return float(use(threadIdx.x % 32)); }, [](unsigned) { return 1; });
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
  for (const Order order : orders) {
    machine().order = order;
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
          load_matrices(left, shared_address(a + row * 16 + column), false);
          load_matrices(right_part, shared_address(b + row * 16 + column), true);
          float c[2][4] = {{1, 2, 3, 4}, {5, 6, 7, 8}};
          for (int p = 0; p < 2; ++p)
            multiply_add(c[p], left, right_part[2 * p], right_part[2 * p + 1]);
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
                             *const turned = numbers(512);
        for (int i = lane; i < 256; i += 32) from[i] = {uint16_t(i)};
        __syncwarp();
        uint32_t x[4];
        load_matrices(x, shared_address(from + row * 16 + column), false);
        store_matrices(shared_address(to + row * 16 + column), x, false);
        store_matrices(shared_address(turned + row * 16 + column), x, true);
        __syncwarp();
        for (int i = lane; i < 256; i += 32) {
          const int corner = i / 128 * 128 + i / 8 % 2 * 8, line = i / 16 % 8, place = i % 8;
          if (to[i].bits != i || turned[i].bits != corner + place * 16 + line) right = false;
        }
        uint32_t transposes[4];
        load_matrices(transposes, shared_address(from + row * 16 + column), true);
        for (int m = 0; m < 4; ++m)
          if (transpose(x[m]) != transposes[m]) right = false;
      },
      {}, {32}, sizeof(memory));
  EXPECT_TRUE(right);
}

}  // namespace
}  // namespace deltasane::emulation
