// A GPU's threads on the host: the threads of a block are fibers of one thread of the host, and one
// block runs after the other.
//
// A fiber runs until it has to wait for others: for the lanes of its warp at an instruction of the
// whole warp, for threads at a barrier, or for a signal. Which one goes on then is a matter of the
// order, so that what only one order gets right is seen: a barrier that is missing lets some thread
// read too early or write too early in at least one of them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>

namespace deltasane::emulation {

constexpr int warp_lanes = 32;
constexpr size_t shared_bytes = 227 * 1024;  // the most of one block

enum class Order {
  rising,    // the first warp as far as it gets, then the next one; the same of its lanes
  falling,   // the last one first
  shuffled,  // any, and never the same warp for long; copies do not wait either
};

struct Extent {
  unsigned x = 1, y = 1, z = 1;
};

// Runs `thread` once for every thread of every block. Fails where threads wait for each other for
// ever, and with what a thread of them fails with.
void run_kernel(const std::function<void()>& thread, const Extent& blocks, const Extent& threads,
                size_t shared);

// Says where kernels have an array in shared memory: memory of the host that lies still. It is
// filled with NaN before every block, and what a block was not given must stay so.
bool share(void* at, size_t bytes);

// The GPU that the host stands for. Without an order, each block has one by chance, the same in
// every run.
struct Machine {
  int capability = 90, multiprocessors = 24;
  size_t shared = shared_bytes;  // the most of one block, at most that many
  std::optional<Order> order;
};
Machine& machine();

// For threads of a kernel.
//
// An instruction that the 32 lanes of a warp do together: when all have come, `together` is called
// once with what each of them has brought. Fails where one has come for another instruction.
using Lanes = std::array<void*, warp_lanes>;
void meet_lanes(const char* instruction, void* mine, void (*together)(const Lanes&));

// Waits until `count` threads are at the barrier; 0: all of the block that have not ended.
void meet_threads(unsigned barrier, unsigned count);

// A signal is an object in shared memory that is given when `arrivals` threads have arrived, again
// and again. Waiting for a round of it, the first (0) or the second (1) of every two, ends where
// that round is the last one that was given; before the first, the second counts as that.
void set_up_signal(const void* at, unsigned arrivals);
void arrive_at_signal(const void* at);
void wait_for_signal(const void* at, unsigned round);

// Copies that land when they are waited for, or (shuffled) as soon as they are asked for.
void copy_and_arrive(void* to, const void* from, size_t bytes, const void* signal);
void copy_later(void* to, const void* from, size_t bytes, size_t zeros);
void close_copies();                   // into a group
void wait_for_copies(size_t younger);  // than those of all but so many groups

// Shared memory by 32 bits, as instructions name it.
uint32_t shared_address(const void* at);
void* at_shared(uint32_t address);

void fail_unless_aligned(const void* at, size_t bytes);

}  // namespace deltasane::emulation
