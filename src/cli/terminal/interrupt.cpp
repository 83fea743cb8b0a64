#include "cli/terminal/interrupt.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdint>

#include "base/error.h"

namespace deltasane::cli {
namespace {

volatile std::sig_atomic_t interrupt_count = 0;
volatile std::sig_atomic_t wake_descriptor = -1;

extern "C" void add_interrupt(int) {
  interrupt_count = interrupt_count + 1;
  wake_waiting();
}

}  // namespace

void count_interrupts(std::initializer_list<int> signals) {
  for (const int number : signals) std::signal(number, add_interrupt);
}

int interrupts() { return interrupt_count; }
void forget_interrupts() { interrupt_count = 0; }

extern "C" void wake_waiting() {
  const int kept = errno;
  const uint64_t one = 1;
  if (wake_descriptor >= 0) [[maybe_unused]] const auto written = ::write(wake_descriptor, &one, sizeof one);
  errno = kept;
}

bool wait_for_input(int descriptor) {
  if (wake_descriptor < 0) {
    wake_descriptor = ::eventfd(1, EFD_NONBLOCK | EFD_CLOEXEC);  // 1: for signals that came already
    if (wake_descriptor < 0) fail(Fault::device, "eventfd: expected a descriptor, found none");
  }
  pollfd both[] = {{descriptor, POLLIN, 0}, {wake_descriptor, POLLIN, 0}};
  if (::poll(both, 2, -1) < 0) return false;
  uint64_t signals;
  if (both[1].revents != 0) [[maybe_unused]] const auto read = ::read(wake_descriptor, &signals, sizeof signals);
  return both[0].revents != 0;
}

}  // namespace deltasane::cli
