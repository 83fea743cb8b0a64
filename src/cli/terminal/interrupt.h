// Signals that ask a command to stop (Ctrl-C is SIGINT): counted here, and looked at by commands
// that finish what they are at.
#pragma once

#include <initializer_list>

namespace deltasane::cli {

void count_interrupts(std::initializer_list<int> signals);  // from now on
int interrupts();  // since the last forget_interrupts
void forget_interrupts();

}  // namespace deltasane::cli
