// Runs this program's own commands as processes, for a command that is made of others: each can be
// killed and goes on by itself, and none leaves memory behind.
#pragma once

#include <string>
#include <vector>

namespace deltasane::cli {

// Waits for the end; its output goes where ours goes. A failure is one of ours, with the command.
void run_own(const std::vector<std::string>& words);

}  // namespace deltasane::cli
