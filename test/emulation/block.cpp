#include "emulation/block.h"

#include <cuda_runtime.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <deque>
#include <exception>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "base/cat.h"
#include "base/error.h"

uint3 threadIdx, blockIdx;
dim3 blockDim, gridDim;

namespace deltasane::emulation {
namespace {

unsigned thread_number = 0;  // in its block, whatever the block's extent
void set_thread(unsigned number) {
  thread_number = number;
  threadIdx = {number % blockDim.x, number / blockDim.x, 0};
}

constexpr unsigned max_threads = 1024, max_warps = max_threads / warp_lanes;
constexpr size_t stack_bytes = 64 * 1024;

struct Fiber {
  void* context[5] = {};  // where it continues
  bool started = false;
};

struct Copy {
  void* to;
  const void* from;
  size_t bytes, zeros, group;
  bool arrives = true;  // at the mbarrier of a bulk copy
};

struct Warp {
  uint32_t ready = 0;                 // lanes
  const char* instruction = nullptr;  // that lanes wait at
  Lanes operands;
  int arrived = 0;
};

struct Barrier {
  unsigned arrived = 0, count = 0;
  std::array<uint32_t, max_warps> waiting{};
};

struct Mbarrier {
  unsigned arrivals = 0, arrived = 0, parity = 0;  // parity: of the phase that is not complete
  std::array<uint32_t, max_warps> waiting{};
  std::deque<Copy> copies{};  // that are not complete
};

struct Block {
  std::array<Fiber, max_threads> fibers;
  std::byte* stacks = nullptr;
  Fiber host{.started = true};
  std::array<Warp, max_warps> warps;
  std::array<Barrier, 16> barriers;
  std::map<const void*, Mbarrier> mbarriers;
  std::array<std::deque<Copy>, max_threads> copies;
  std::array<size_t, max_threads> groups;
  std::array<uint32_t, max_warps> polling{};
  bool polls = false;
  bool resident = false;  // beside other blocks, which write memory meanwhile
  int looks = 0;          // of polling threads with nothing else to run, since a barrier was passed
  int idle = 0;           // times in a row that all threads were polling, and since when
  std::chrono::steady_clock::time_point idle_since;
  uint32_t ready_warps = 0;
  unsigned threads = 0, alive = 0, warp = 0;
  Schedule schedule = Schedule::rising;
  std::minstd_rand random;
  const std::function<void()>* thread = nullptr;
  std::exception_ptr failure;
};

// A global, as threadIdx is: kernels have no parameter for it.
std::unique_ptr<Block> block;
std::vector<std::pair<std::byte*, size_t>>& shared_memories() {
  static std::vector<std::pair<std::byte*, size_t>> all;
  return all;
}

void fiber_main();

// Stacks start at different offsets in their pages: otherwise they share the cache sets of some
// processors, which hold few of them.
void start_fiber(unsigned thread) {
  ucontext_t context;
  getcontext(&context);
  context.uc_stack.ss_sp = block->stacks + thread * stack_bytes;
  context.uc_stack.ss_size = stack_bytes - thread % warp_lanes * 1088;
  context.uc_link = nullptr;
  makecontext(&context, fiber_main, 0);
  block->fibers[thread].started = true;
  setcontext(&context);
}

// Both builtins are in one function, which is allowed for different buffers: so the processor's
// return-address predictions hold for the next fiber too.
[[gnu::noinline]] void switch_fiber(Fiber& from, Fiber& to) {
  if (__builtin_setjmp(from.context) != 0) return;
  if (!to.started) start_fiber(thread_number);
  __builtin_longjmp(to.context, 1);
}

unsigned pick_bit(uint32_t bits) {
  if (block->schedule == Schedule::rising) return unsigned(__builtin_ctz(bits));
  if (block->schedule == Schedule::falling) return 31u - unsigned(__builtin_clz(bits));
  const unsigned shift = unsigned(block->random() / 8 % 32);
  const uint32_t rotated = bits >> shift | bits << (32 - shift) % 32;
  return (unsigned(__builtin_ctz(rotated)) + shift) % 32;
}

std::string waiting_threads() {
  std::string all;
  for (unsigned w = 0; w < block->threads / warp_lanes; ++w)
    if (const Warp& warp = block->warps[w]; warp.arrived)
      all += cat("; warp ", w, ": ", warp.arrived, " lanes at ", warp.instruction);
  for (unsigned b = 0; b < block->barriers.size(); ++b)
    if (const Barrier& barrier = block->barriers[b]; barrier.arrived)
      all += cat("; barrier ", b, ": ", barrier.arrived, " threads of ",
                 barrier.count ? barrier.count : block->alive);
  for (const auto& [at, mbarrier] : block->mbarriers)
    for (unsigned w = 0; w < max_warps; ++w)
      if (mbarrier.waiting[w])
        all += cat("; warp ", w, ": waits for an mbarrier with ", mbarrier.arrived, " of ",
                   mbarrier.arrivals, " arrivals");
  return all;
}

void set_failure(const std::string& what) {
  block->failure = std::make_exception_ptr(Error(Fault::device, what));
}

Fiber& current() { return block->fibers[thread_number]; }

void set_ready(unsigned warp, uint32_t lanes) {
  block->warps[warp].ready |= lanes;
  if (block->warps[warp].ready) block->ready_warps |= 1u << warp;
}

// Other blocks compute meanwhile, as processes of a machine that may be busy.
constexpr std::chrono::seconds longest_wait(120);

// Of threads of a block that runs alone, where no other thread can run: nothing changes between them.
constexpr int most_looks = 100;

// Whether a thread may find in memory what it waits for, while all others wait too.
bool may_find() {
  if (!block->resident) return ++block->looks < most_looks;
  const auto now = std::chrono::steady_clock::now();
  if (++block->idle == 1)
    block->idle_since = now;
  else
    usleep(10);
  return now - block->idle_since <= longest_wait;
}

// All threads wait, some of them for memory: other blocks may run, then these look again.
void wake_polling_threads() {
  if (!std::exchange(block->polls, false) || !may_find()) return;
  for (unsigned w = 0; w < max_warps; ++w) set_ready(w, std::exchange(block->polling[w], 0));
}

// Yields to another thread, of the same warp if `stay_in_warp` and the schedule allows.
void yield(bool stay_in_warp = true) {
  Fiber& from = current();
  Fiber* to = &block->host;
  if (!block->failure && block->alive && !block->ready_warps) wake_polling_threads();
  if (!block->failure && block->ready_warps) {
    const bool stay = stay_in_warp && block->schedule != Schedule::shuffled &&
                      block->ready_warps >> block->warp & 1;
    if (!stay) block->warp = pick_bit(block->ready_warps);
    set_thread(block->warp * warp_lanes + pick_bit(block->warps[block->warp].ready));
    to = &current();
  } else if (!block->failure && block->alive) {
    set_failure(cat("a kernel: deadlock", waiting_threads()));
  }
  if (to != &from) switch_fiber(from, *to);
}

void set_waiting() {
  Warp& warp = block->warps[thread_number / warp_lanes];
  warp.ready &= ~(1u << thread_number % warp_lanes);
  if (!warp.ready) block->ready_warps &= ~(1u << thread_number / warp_lanes);
}

void release_if_complete(Barrier& barrier) {
  if (barrier.arrived == 0 || barrier.arrived < (barrier.count ? barrier.count : block->alive))
    return;
  for (unsigned w = 0; w < max_warps; ++w) set_ready(w, barrier.waiting[w]);
  barrier = Barrier();
  block->looks = 0;
}

Barrier& barrier_for(unsigned number, unsigned count) {
  if (number >= block->barriers.size())
    fail(Fault::device, "a kernel: expected a barrier below 16, found ", number);
  Barrier& barrier = block->barriers[number];
  if (barrier.arrived && barrier.count != count)
    fail(Fault::device, "a kernel, block ", blockIdx.x, ", thread ", thread_number,
         ": arrives at barrier ", number, " of ", count, " threads, others at one of ",
         barrier.count);
  barrier.count = count;
  ++barrier.arrived;
  return barrier;
}

void wake(Mbarrier& mbarrier) {
  for (unsigned w = 0; w < max_warps; ++w) set_ready(w, std::exchange(mbarrier.waiting[w], 0));
}

Mbarrier& mbarrier_at(const void* at) {
  const auto found = block->mbarriers.find(at);
  if (found == block->mbarriers.end())
    fail(Fault::device, "a kernel, block ", blockIdx.x, ", thread ", thread_number,
         ": uses an mbarrier that is not initialised");
  return found->second;
}

void complete(const Copy& copy) {
  std::memcpy(copy.to, copy.from, copy.bytes - copy.zeros);
  std::memset(static_cast<std::byte*>(copy.to) + copy.bytes - copy.zeros, 0, copy.zeros);
}

void fiber_main() {
  for (;;) {
    try {
      (*block->thread)();
    } catch (...) {
      if (!block->failure) block->failure = std::current_exception();
    }
    set_waiting();
    --block->alive;
    for (Barrier& barrier : block->barriers)
      if (!barrier.count) release_if_complete(barrier);
    yield();
  }
}

// In huge pages: a fiber uses little of its stack, and there are many.
std::byte* allocate_stacks() {
  constexpr size_t bytes = max_threads * stack_bytes;
  void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  require(memory != MAP_FAILED, "the host has memory for the stacks of threads");
  madvise(memory, bytes, MADV_HUGEPAGE);
  return static_cast<std::byte*>(memory);
}

void run_block(unsigned threads, size_t shared) {
  for (const auto& [at, bytes] : shared_memories()) std::memset(at, 0xff, bytes);
  block->schedule = emulated_gpu().schedule.value_or(Schedule(block->random() / 8 % 3));
  block->warps = {};
  block->barriers = {};
  block->mbarriers.clear();
  block->polling = {}, block->polls = false, block->idle = 0, block->looks = 0;
  block->ready_warps = 0;
  for (unsigned t = 0; t < threads; ++t) {
    block->copies[t].clear(), block->groups[t] = 0;
    set_ready(t / warp_lanes, 1u << t % warp_lanes);
  }
  block->threads = block->alive = threads;
  block->warp = pick_bit(block->ready_warps);
  set_thread(block->warp * warp_lanes + pick_bit(block->warps[block->warp].ready));
  switch_fiber(block->host, current());
  if (block->failure) {  // the other fibers are abandoned: they start anew
    for (Fiber& fiber : block->fibers) fiber.started = false;
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

namespace {

void prepare(const std::function<void()>& thread, const Extent& blocks, const Extent& extent,
             size_t shared) {
  const unsigned threads = extent.x * extent.y * extent.z;
  require(threads && threads % warp_lanes == 0 && threads <= max_threads && extent.z == 1,
          "a block has 1 to 32 whole warps");
  require(shared <= shared_bytes, "a block has at most the shared memory of a GPU");
  if (!block) {
    block = std::make_unique<Block>();
    block->stacks = allocate_stacks();
  }
  if (emulated_gpu().schedule) block->random.seed(emulated_gpu().seed);
  block->thread = &thread;
  blockDim = {extent.x, extent.y, extent.z}, gridDim = {blocks.x, blocks.y, blocks.z};
}

// Ends this process.
[[noreturn]] void run_resident_block(unsigned index, unsigned threads, size_t shared) {
  blockIdx = {index, 0, 0};
  block->resident = true;
  for (unsigned i = 0; i < index; ++i) block->random();  // another schedule for each
  try {
    run_block(threads, shared);
  } catch (const std::exception& error) {
    const std::string text = cat("block ", index, ": ", error.what(), "\n");
    [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, text.data(), text.size());
    _exit(1);
  }
  _exit(0);
}

}  // namespace

void run_kernel(const std::function<void()>& thread, const Extent& blocks, const Extent& extent,
                size_t shared) {
  prepare(thread, blocks, extent, shared);
  for (blockIdx.z = 0; blockIdx.z < blocks.z; ++blockIdx.z)
    for (blockIdx.y = 0; blockIdx.y < blocks.y; ++blockIdx.y)
      for (blockIdx.x = 0; blockIdx.x < blocks.x; ++blockIdx.x)
        run_block(blockDim.x * blockDim.y, shared);
}

void run_resident(const std::function<void()>& thread, unsigned blocks, const Extent& extent,
                  size_t shared) {
  prepare(thread, {blocks}, extent, shared);
  block->random();  // the next kernel has other schedules
  std::vector<pid_t> processes;
  for (unsigned i = 0; i < blocks; ++i) {
    const pid_t process = fork();
    if (process == 0) run_resident_block(i, extent.x * extent.y, shared);
    require(process > 0, "the host has a process for each block");
    processes.push_back(process);
  }
  unsigned failed = 0;
  for (const pid_t process : processes) {
    int status = 0;
    waitpid(process, &status, 0);
    failed += status != 0;
  }
  if (failed) fail(Fault::device, "a kernel: ", failed, " of ", blocks, " resident blocks failed");
}

bool register_shared(void* at, size_t bytes) {
  shared_memories().emplace_back(static_cast<std::byte*>(at), bytes);
  return true;
}

EmulatedGpu& emulated_gpu() {
  static EmulatedGpu gpu;
  return gpu;
}

void warp_collective(const char* instruction, void* operands, void (*execute)(const Lanes&)) {
  block->idle = 0;
  Warp& warp = block->warps[thread_number / warp_lanes];
  if (warp.arrived && warp.instruction != instruction)
    fail(Fault::device, "a kernel, block ", blockIdx.x, ", thread ", thread_number, ": executes ",
         instruction, " while lanes of its warp wait at ", warp.instruction);
  warp.instruction = instruction;
  warp.operands[thread_number % warp_lanes] = operands;
  if (++warp.arrived < warp_lanes) {
    set_waiting();
  } else {
    execute(warp.operands);
    warp.arrived = 0;
    set_ready(thread_number / warp_lanes, ~0u);
  }
  yield();
}

void barrier_sync(unsigned number, unsigned count) {
  Barrier& barrier = barrier_for(number, count);
  barrier.waiting[thread_number / warp_lanes] |= 1u << thread_number % warp_lanes;
  set_waiting();
  release_if_complete(barrier);
  yield();
}

void barrier_arrive(unsigned number, unsigned count) {
  release_if_complete(barrier_for(number, count));
}

void wait_for_others() {
  block->polling[thread_number / warp_lanes] |= 1u << thread_number % warp_lanes;
  block->polls = true;
  set_waiting();
  yield();
}

void mbarrier_init(const void* at, unsigned arrivals) {
  expect_aligned(at, 8);
  block->mbarriers[at] = Mbarrier{.arrivals = arrivals};
}
void mbarrier_arrive(const void* at) {
  Mbarrier& mbarrier = mbarrier_at(at);
  if (++mbarrier.arrived < mbarrier.arrivals) return;
  mbarrier.arrived = 0, mbarrier.parity ^= 1;
  wake(mbarrier);
  yield(false);  // the waiting threads may be faster than the other lanes of this warp
}
void mbarrier_wait(const void* at, unsigned parity) {
  Mbarrier& mbarrier = mbarrier_at(at);
  while (mbarrier.parity == parity) {
    if (!mbarrier.copies.empty()) {
      const Copy copy = mbarrier.copies.front();
      mbarrier.copies.pop_front();
      complete(copy);
      if (copy.arrives) mbarrier_arrive(at);
      continue;
    }
    mbarrier.waiting[thread_number / warp_lanes] |= 1u << thread_number % warp_lanes;
    set_waiting();
    yield();
  }
}

void copy_async(void* to, const void* from, size_t bytes, size_t zeros) {
  expect_aligned(to, bytes), expect_aligned(from, bytes);
  const Copy copy{to, from, bytes, zeros, block->groups[thread_number]};
  if (block->schedule == Schedule::shuffled)
    complete(copy);
  else
    block->copies[thread_number].push_back(copy);
}
void bulk_copy_async(void* to, const void* from, size_t bytes, const void* at, bool arrives) {
  expect_aligned(to, 16), expect_aligned(from, 16);
  if (bytes == 0 || bytes % 16)
    fail(Fault::device, "a kernel: bulk copy of ", bytes, " bytes, expected a multiple of 16");
  const Copy copy{to, from, bytes, 0, 0, arrives};
  if (block->schedule == Schedule::shuffled) {
    complete(copy);
    if (arrives) mbarrier_arrive(at);
  } else {
    mbarrier_at(at).copies.push_back(copy);
    wake(mbarrier_at(at));
  }
}
void commit_group() { ++block->groups[thread_number]; }
void wait_group(size_t pending) {
  std::deque<Copy>& copies = block->copies[thread_number];
  while (!copies.empty() && copies.front().group + pending < block->groups[thread_number]) {
    complete(copies.front());
    copies.pop_front();
  }
}
void arrive_after_copies(const void* at) {
  std::deque<Copy>& copies = block->copies[thread_number];
  if (copies.empty()) return mbarrier_arrive(at);
  for (Copy& copy : copies) copy.arrives = false;
  copies.back().arrives = true;
  Mbarrier& mbarrier = mbarrier_at(at);
  mbarrier.copies.insert(mbarrier.copies.end(), copies.begin(), copies.end());
  copies.clear();
  wake(mbarrier);  // whoever waits completes them
}

// All static memory of a program is within 2 GiB, so that the lower half of an address is enough if
// another static address is known.
uint32_t shared_address(const void* at) { return uint32_t(reinterpret_cast<uintptr_t>(at)); }
void* shared_pointer(uint32_t address) {
  const uintptr_t near = reinterpret_cast<uintptr_t>(&blockIdx);
  return reinterpret_cast<void*>(near + uintptr_t(intptr_t(int32_t(address - uint32_t(near)))));
}

void expect_aligned(const void* at, size_t bytes) {
  if (reinterpret_cast<uintptr_t>(at) % bytes)
    fail(Fault::device, "a kernel, block ", blockIdx.x, ", thread ", thread_number, ": ", bytes,
         " bytes at an address that is not a multiple of that");
}

}  // namespace deltasane::emulation
