#include "base/io/mapped_ranges.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <string>

namespace deltasane {
namespace {

// Read by a signal handler: nothing is allocated or freed, and a slot's name outlives its mapping.
struct Slot {
  std::atomic<bool> taken{false};
  std::atomic<uintptr_t> begin{0}, end{0};
  std::array<char, 232> name{};  // the end of the path
};
constexpr int slots = 1024;
Slot table[slots];

void put(const char* text) {
  const ssize_t ignored = ::write(STDERR_FILENO, text, std::strlen(text));
  static_cast<void>(ignored);
}

extern "C" void on_vanished_bytes(int number, siginfo_t* about, void*) {
  const auto at = reinterpret_cast<uintptr_t>(about->si_addr);
  for (const Slot& slot : table) {
    if (at < slot.begin.load() || at >= slot.end.load()) continue;
    put("deltasane: ");
    put(slot.name.data());
    put(": expected the bytes that were there when it was opened, found that it became shorter or "
        "that its disk failed; do not write to a file that is being read\n");
    ::_exit(1);
  }
  std::signal(number, SIG_DFL);  // raised again when the instruction is repeated
}

}  // namespace

int remember_mapping(const void* begin, size_t size, const std::filesystem::path& path) {
  for (int i = 0; i < slots; ++i) {
    Slot& slot = table[i];
    if (slot.taken.load(std::memory_order_relaxed) || slot.taken.exchange(true)) continue;
    const std::string name = path.string();
    const size_t kept = std::min(name.size(), slot.name.size() - 1);
    slot.name.fill('\0');
    std::memcpy(slot.name.data(), name.data() + name.size() - kept, kept);
    slot.begin = reinterpret_cast<uintptr_t>(begin);
    slot.end = reinterpret_cast<uintptr_t>(begin) + size;
    return i;
  }
  return -1;
}

void forget_mapping(int place) {
  if (place < 0) return;
  table[place].end = 0;
  table[place].begin = 0;
  table[place].taken = false;
}

void end_with_message_on_vanished_bytes() {
  struct sigaction action {};
  action.sa_sigaction = on_vanished_bytes;
  action.sa_flags = SA_SIGINFO | SA_NODEFER;
  ::sigaction(SIGBUS, &action, nullptr);
}

}  // namespace deltasane
