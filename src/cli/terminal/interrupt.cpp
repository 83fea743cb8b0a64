#include "cli/terminal/interrupt.h"

#include <csignal>

namespace deltasane::cli {
namespace {

volatile std::sig_atomic_t interrupt_count = 0;

extern "C" void add_interrupt(int) { interrupt_count = interrupt_count + 1; }

}  // namespace

void count_interrupts(std::initializer_list<int> signals) {
  for (const int number : signals) std::signal(number, add_interrupt);
}

int interrupts() { return interrupt_count; }
void forget_interrupts() { interrupt_count = 0; }

}  // namespace deltasane::cli
