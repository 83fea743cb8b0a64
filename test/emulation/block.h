// A GPU's threads on the host: the threads of a block are fibers of one host thread, and one block
// runs after the other, unless they are to be resident together.
//
// A fiber runs until it has to wait: for the lanes of its warp at a warp-wide instruction, for
// threads at a barrier, or for an mbarrier. Which one runs next depends on the schedule, so that
// code which is right in one schedule only is detected: a missing barrier lets some thread read or
// write too early in at least one of them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>

namespace deltasane::emulation {

constexpr int warp_lanes = 32;
constexpr size_t shared_bytes = 227 * 1024;  // the most of one block

enum class Schedule {
  rising,    // the first warp as far as it gets, then the next one; the same for its lanes
  falling,   // the last one first
  shuffled,  // any, and never the same warp for long; copies complete at once
};

struct Extent {
  unsigned x = 1, y = 1, z = 1;
};

// Runs `thread` once for every thread of every block. Fails on a deadlock, and with the error of a
// thread that fails.
void run_kernel(const std::function<void()>& thread, const Extent& blocks, const Extent& threads,
                size_t shared);

// Likewise, all blocks at the same time, so that they may wait for each other: each is a process of
// its own, and they share what GpuBuffer and pinned_memory allocate.
void run_resident(const std::function<void()>& thread, unsigned blocks, const Extent& threads,
                  size_t shared);

// Declares a static array as the shared memory of kernels. It is filled with NaN before every
// block, and what is beyond the block's size must stay so.
bool register_shared(void* at, size_t bytes);

// The GPU that the host stands for. Without a schedule, each block has a random one, which depends
// on the blocks that ran before. With one, the random choices of every kernel begin with `seed`.
struct EmulatedGpu {
  int capability = 90, multiprocessors = 24;
  size_t shared = shared_bytes;  // the most of one block, at most that many
  std::optional<Schedule> schedule;
  unsigned seed = 1;
};
EmulatedGpu& emulated_gpu();

// For threads of a kernel.
//
// An instruction that the 32 lanes of a warp execute together: when all have arrived, `execute` is
// called once with the operands of each. Fails where a lane arrives at another instruction.
using Lanes = std::array<void*, warp_lanes>;
void warp_collective(const char* instruction, void* operands, void (*execute)(const Lanes&));

// Waits until `count` threads are at the barrier; 0: all of the block that have not ended.
void barrier_sync(unsigned barrier, unsigned count);
// Is counted among them, and does not wait.
void barrier_arrive(unsigned barrier, unsigned count);

// Lets the threads run that can, of other blocks too, where a thread polls memory in a loop.
void wait_for_others();

// An mbarrier is an object in shared memory whose phase completes when `arrivals` threads have
// arrived. Waiting for a phase by its parity, 0 for the first one, ends when that phase is the last
// complete one; the phase before the first counts as complete.
void mbarrier_init(const void* at, unsigned arrivals);
void mbarrier_arrive(const void* at);
void mbarrier_wait(const void* at, unsigned parity);

// Copies that complete when they are waited for, or (shuffled) at once.
void bulk_copy_async(void* to, const void* from, size_t bytes, const void* mbarrier,
                     bool arrives = true);
void copy_async(void* to, const void* from, size_t bytes, size_t zeros);
void commit_group();
void wait_group(size_t pending);
void arrive_after_copies(const void* mbarrier);  // the thread's of copy_async

// Shared memory by 32-bit addresses, as instructions take them.
uint32_t shared_address(const void* at);
void* shared_pointer(uint32_t address);

void expect_aligned(const void* at, size_t bytes);

}  // namespace deltasane::emulation
