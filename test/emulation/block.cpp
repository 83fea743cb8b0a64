#include "emulation/block.h"

#include <cuda_runtime.h>
#include <sys/mman.h>
#include <ucontext.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <exception>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"

uint3 threadIdx, blockIdx;
dim3 blockDim, gridDim;

namespace deltasane::emulation {
namespace {

unsigned thread_number = 0;  // in its block, whatever the block's extent
void be_thread(unsigned number) {
  thread_number = number;
  threadIdx = {number % blockDim.x, number / blockDim.x, 0};
}

constexpr unsigned most_threads = 1024, most_warps = most_threads / warp_lanes;
constexpr size_t stack_bytes = 64 * 1024;

struct Fiber {
  void* place[5] = {};  // where it goes on
  bool begun = false;
};

struct Copy {
  void* to;
  const void* from;
  size_t bytes, zeros, group;
};

struct Warp {
  uint32_t ready = 0;                 // lanes
  const char* instruction = nullptr;  // that lanes wait at
  Lanes brought;
  int arrived = 0;
};

struct Barrier {
  unsigned arrived = 0, count = 0;
  std::array<uint32_t, most_warps> waiting{};
};

struct Signal {
  unsigned arrivals = 0, arrived = 0, round = 0;  // round: the one that is not over
  std::array<uint32_t, most_warps> waiting{};
  std::deque<Copy> copies{};  // that have not arrived
};

struct Block {
  std::array<Fiber, most_threads> fibers;
  std::byte* stacks = nullptr;
  Fiber host{.begun = true};
  std::array<Warp, most_warps> warps;
  std::array<Barrier, 16> barriers;
  std::map<const void*, Signal> signals;
  std::array<std::deque<Copy>, most_threads> copies;
  std::array<size_t, most_threads> groups;
  uint32_t ready_warps = 0;
  unsigned threads = 0, alive = 0, warp = 0;
  Order order = Order::rising;
  std::minstd_rand random;
  const std::function<void()>* thread = nullptr;
  std::exception_ptr failure;
};

// Kernels find their block as they find threadIdx: it is not handed to them.
std::unique_ptr<Block> block;
std::vector<std::pair<std::byte*, size_t>>& shared_memories() {
  static std::vector<std::pair<std::byte*, size_t>> all;
  return all;
}

void live();

// Stacks begin at different places of their pages: otherwise the caches of some processors have
// room for a few of them only.
void begin(unsigned thread) {
  ucontext_t context;
  getcontext(&context);
  context.uc_stack.ss_sp = block->stacks + thread * stack_bytes;
  context.uc_stack.ss_size = stack_bytes - thread % warp_lanes * 1088;
  context.uc_link = nullptr;
  makecontext(&context, live, 0);
  block->fibers[thread].begun = true;
  setcontext(&context);
}

// Jumps in the function that is jumped into, which is allowed where the places differ: so what a
// processor remembers of where calls return to is right for the next fiber too.
[[gnu::noinline]] void change(Fiber& from, Fiber& to) {
  if (__builtin_setjmp(from.place) != 0) return;
  if (!to.begun) begin(thread_number);
  __builtin_longjmp(to.place, 1);
}

unsigned one_of(uint32_t bits) {
  if (block->order == Order::rising) return unsigned(__builtin_ctz(bits));
  if (block->order == Order::falling) return 31u - unsigned(__builtin_clz(bits));
  const unsigned turn = unsigned(block->random() / 8 % 32);
  const uint32_t turned = bits >> turn | bits << (32 - turn) % 32;
  return (unsigned(__builtin_ctz(turned)) + turn) % 32;
}

std::string who_waits() {
  std::string all;
  for (unsigned w = 0; w < block->threads / warp_lanes; ++w)
    if (const Warp& warp = block->warps[w]; warp.arrived)
      all += cat("; warp ", w, ": ", warp.arrived, " lanes at ", warp.instruction);
  for (unsigned b = 0; b < block->barriers.size(); ++b)
    if (const Barrier& barrier = block->barriers[b]; barrier.arrived)
      all += cat("; barrier ", b, ": ", barrier.arrived, " threads of ",
                 barrier.count ? barrier.count : block->alive);
  for (const auto& [at, signal] : block->signals)
    for (unsigned w = 0; w < most_warps; ++w)
      if (signal.waiting[w])
        all += cat("; warp ", w, ": waits for a signal that ", signal.arrived, " of ",
                   signal.arrivals, " arrived at");
  return all;
}

void note_failure(const std::string& what) {
  block->failure = std::make_exception_ptr(Error(Fault::device, what));
}

Fiber& current() { return block->fibers[thread_number]; }

// The thread stops here until it is its turn. Its warp may be the next one, if that is wanted.
void take_turns(bool stay_in_warp = true) {
  Fiber& from = current();
  Fiber* to = &block->host;
  if (!block->failure && block->ready_warps) {
    const bool stay =
        stay_in_warp && block->order != Order::shuffled && block->ready_warps >> block->warp & 1;
    if (!stay) block->warp = one_of(block->ready_warps);
    be_thread(block->warp * warp_lanes + one_of(block->warps[block->warp].ready));
    to = &current();
  } else if (!block->failure && block->alive) {
    note_failure(cat("a kernel: no thread can go on", who_waits()));
  }
  if (to != &from) change(from, *to);
}

void set_ready(unsigned warp, uint32_t lanes) {
  block->warps[warp].ready |= lanes;
  if (block->warps[warp].ready) block->ready_warps |= 1u << warp;
}
void set_waiting() {
  Warp& warp = block->warps[thread_number / warp_lanes];
  warp.ready &= ~(1u << thread_number % warp_lanes);
  if (!warp.ready) block->ready_warps &= ~(1u << thread_number / warp_lanes);
}

void open_if_complete(Barrier& barrier) {
  if (barrier.arrived == 0 || barrier.arrived < (barrier.count ? barrier.count : block->alive))
    return;
  for (unsigned w = 0; w < most_warps; ++w) set_ready(w, barrier.waiting[w]);
  barrier = Barrier();
}

Barrier& barrier_for(unsigned number, unsigned count) {
  if (number >= block->barriers.size()) fail(Fault::device, "a kernel: no barrier ", number);
  Barrier& barrier = block->barriers[number];
  if (barrier.arrived && barrier.count != count)
    fail(Fault::device, "a kernel, block ", blockIdx.x, ", thread ", thread_number,
         ": comes to barrier ", number, " for ", count, " threads, others for ", barrier.count);
  barrier.count = count;
  ++barrier.arrived;
  return barrier;
}

Signal& signal_at(const void* at) {
  const auto found = block->signals.find(at);
  if (found == block->signals.end())
    fail(Fault::device, "a kernel, block ", blockIdx.x, ", thread ", thread_number,
         ": comes to a signal that is not set up");
  return found->second;
}

void land(const Copy& copy) {
  std::memcpy(copy.to, copy.from, copy.bytes - copy.zeros);
  std::memset(static_cast<std::byte*>(copy.to) + copy.bytes - copy.zeros, 0, copy.zeros);
}

void live() {
  for (;;) {
    try {
      (*block->thread)();
    } catch (...) {
      if (!block->failure) block->failure = std::current_exception();
    }
    set_waiting();
    --block->alive;
    for (Barrier& barrier : block->barriers)
      if (!barrier.count) open_if_complete(barrier);
    take_turns();
  }
}

// In large pages: a fiber uses little of its stack, and there are many.
std::byte* memory_for_stacks() {
  constexpr size_t bytes = most_threads * stack_bytes;
  void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  require(memory != MAP_FAILED, "there is memory for the stacks of threads");
  madvise(memory, bytes, MADV_HUGEPAGE);
  return static_cast<std::byte*>(memory);
}

void run_block(unsigned threads, size_t shared) {
  for (const auto& [at, bytes] : shared_memories()) std::memset(at, 0xff, bytes);
  block->order = machine().order.value_or(Order(block->random() / 8 % 3));
  block->warps = {};
  block->barriers = {};
  block->signals.clear();
  block->ready_warps = 0;
  for (unsigned t = 0; t < threads; ++t) {
    block->copies[t].clear(), block->groups[t] = 0;
    set_ready(t / warp_lanes, 1u << t % warp_lanes);
  }
  block->threads = block->alive = threads;
  block->warp = one_of(block->ready_warps);
  be_thread(block->warp * warp_lanes + one_of(block->warps[block->warp].ready));
  change(block->host, current());
  if (block->failure) {  // the others stay where they are: they begin anew
    for (Fiber& fiber : block->fibers) fiber.begun = false;
    std::rethrow_exception(std::exchange(block->failure, nullptr));
  }
  for (const auto& [at, bytes] : shared_memories())
    if (shared < bytes && (at[shared] != std::byte{0xff} ||
                           std::memcmp(at + shared, at + shared + 1, bytes - shared - 1) != 0))
      fail(Fault::device, "a kernel: wrote beyond its ", shared, " bytes of shared memory");
  for (unsigned t = 0; t < threads; ++t)
    require(block->stacks[t * stack_bytes] == std::byte{}, "a thread's stack is large enough");
}

}  // namespace

void run_kernel(const std::function<void()>& thread, const Extent& blocks, const Extent& extent,
                size_t shared) {
  const unsigned threads = extent.x * extent.y * extent.z;
  require(threads && threads % warp_lanes == 0 && threads <= most_threads && extent.z == 1,
          "a block has whole warps, up to 32");
  require(shared <= shared_bytes, "a block has the shared memory there is");
  if (!block) {
    block = std::make_unique<Block>();
    block->stacks = memory_for_stacks();
  }
  block->thread = &thread;
  blockDim = {extent.x, extent.y, extent.z}, gridDim = {blocks.x, blocks.y, blocks.z};
  for (blockIdx.z = 0; blockIdx.z < blocks.z; ++blockIdx.z)
    for (blockIdx.y = 0; blockIdx.y < blocks.y; ++blockIdx.y)
      for (blockIdx.x = 0; blockIdx.x < blocks.x; ++blockIdx.x) run_block(threads, shared);
}

bool share(void* at, size_t bytes) {
  shared_memories().emplace_back(static_cast<std::byte*>(at), bytes);
  return true;
}

Machine& machine() {
  static Machine the_one;
  return the_one;
}

void meet_lanes(const char* instruction, void* mine, void (*together)(const Lanes&)) {
  Warp& warp = block->warps[thread_number / warp_lanes];
  if (warp.arrived && warp.instruction != instruction)
    fail(Fault::device, "a kernel, block ", blockIdx.x, ", thread ", thread_number, ": comes to ",
         instruction, " while lanes of its warp wait at ", warp.instruction);
  warp.instruction = instruction;
  warp.brought[thread_number % warp_lanes] = mine;
  if (++warp.arrived < warp_lanes) {
    set_waiting();
  } else {
    together(warp.brought);
    warp.arrived = 0;
    set_ready(thread_number / warp_lanes, ~0u);
  }
  take_turns();
}

void meet_threads(unsigned number, unsigned count) {
  Barrier& barrier = barrier_for(number, count);
  barrier.waiting[thread_number / warp_lanes] |= 1u << thread_number % warp_lanes;
  set_waiting();
  open_if_complete(barrier);
  take_turns();
}

void set_up_signal(const void* at, unsigned arrivals) {
  fail_unless_aligned(at, 8);
  block->signals[at] = Signal{.arrivals = arrivals};
}
void arrive_at_signal(const void* at) {
  Signal& signal = signal_at(at);
  if (++signal.arrived < signal.arrivals) return;
  signal.arrived = 0, signal.round ^= 1;
  for (unsigned w = 0; w < most_warps; ++w) set_ready(w, std::exchange(signal.waiting[w], 0));
  take_turns(false);  // they may be faster than the other lanes of this warp
}
void wait_for_signal(const void* at, unsigned round) {
  Signal& signal = signal_at(at);
  while (signal.round == round) {
    if (!signal.copies.empty()) {
      land(signal.copies.front());
      signal.copies.pop_front();
      arrive_at_signal(at);
      continue;
    }
    signal.waiting[thread_number / warp_lanes] |= 1u << thread_number % warp_lanes;
    set_waiting();
    take_turns();
  }
}

void copy_later(void* to, const void* from, size_t bytes, size_t zeros) {
  fail_unless_aligned(to, bytes), fail_unless_aligned(from, bytes);
  const Copy copy{to, from, bytes, zeros, block->groups[thread_number]};
  if (block->order == Order::shuffled)
    land(copy);
  else
    block->copies[thread_number].push_back(copy);
}
void copy_and_arrive(void* to, const void* from, size_t bytes, const void* at) {
  fail_unless_aligned(to, 16), fail_unless_aligned(from, 16);
  if (bytes % 16) fail(Fault::device, "a kernel: copies ", bytes, " bytes, no multiple of 16");
  const Copy copy{to, from, bytes, 0, 0};
  if (block->order == Order::shuffled) {
    land(copy);
    arrive_at_signal(at);
  } else {
    signal_at(at).copies.push_back(copy);
  }
}
void close_copies() { ++block->groups[thread_number]; }
void wait_for_copies(size_t younger) {
  std::deque<Copy>& copies = block->copies[thread_number];
  while (!copies.empty() && copies.front().group + younger < block->groups[thread_number]) {
    land(copies.front());
    copies.pop_front();
  }
}

// All static memory of a program lies within 2 GiB, so that the lower half of an address is enough
// beside another one.
uint32_t shared_address(const void* at) { return uint32_t(reinterpret_cast<uintptr_t>(at)); }
void* at_shared(uint32_t address) {
  const uintptr_t near = reinterpret_cast<uintptr_t>(&blockIdx);
  return reinterpret_cast<void*>(near + uintptr_t(intptr_t(int32_t(address - uint32_t(near)))));
}

void fail_unless_aligned(const void* at, size_t bytes) {
  if (reinterpret_cast<uintptr_t>(at) % bytes)
    fail(Fault::device, "a kernel, block ", blockIdx.x, ", thread ", thread_number, ": ", bytes,
         " bytes at an address that is no multiple of that");
}

}  // namespace deltasane::emulation
