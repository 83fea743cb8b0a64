// Signals that ask a command to stop (Ctrl-C is SIGINT): counted here, and looked at by commands
// that finish what they are at.
#pragma once

#include <initializer_list>

#include "base/error.h"

namespace deltasane::cli {

inline constexpr int interrupted_code = 130;  // of a program: as shells have it for Ctrl-C

// What ends a command that was interrupted.
class Interrupted : public Error {
 public:
  explicit Interrupted(const std::string& message) : Error(Fault::usage, message) {}
};

void count_interrupts(std::initializer_list<int> signals);  // from now on
int interrupts();                                           // since the last forget_interrupts
void forget_interrupts();

// Waits until a descriptor can be read, or a signal came that is counted or wakes: also one that came
// before the wait began, and one that another thread took. Returns whether there is something to read.
bool wait_for_input(int descriptor);
extern "C" void wake_waiting();  // for handlers of other signals

}  // namespace deltasane::cli
