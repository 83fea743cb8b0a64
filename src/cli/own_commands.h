// Runs this program's own commands as processes, for a command that is made of others: each can be
// killed and continues by itself, and none leaves memory behind. They end with this process, however
// it ends. What a launcher of several processes told this one is not passed on.
#pragma once

#include <string>
#include <vector>

#include "base/io/file.h"

namespace deltasane::cli {

// Waits for the end. Its output goes where ours goes, or is added to `log`. A failure is one of
// ours, with the command; so are an interrupt, and an output that nobody reads any more. May be
// called from several threads.
void run_own(const std::vector<std::string>& words, const fs::path& log = {});

}  // namespace deltasane::cli
