// What is run under faults: commands that write files, on a small model, with what must be true after
// any fault.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "support/process.h"
#include "support/scratch.h"

namespace deltasane::test {

namespace fs = std::filesystem;

// A command that writes below `folder`. `again`: the same, after it was stopped.
struct Scenario {
  std::string name;
  std::vector<std::string> first, again;
};

class FaultBench {
 public:
  FaultBench();

  // convert, generate, train, stream, eval and answers, whose files are in `folder`.
  std::vector<Scenario> scenarios(const fs::path& folder) const;
  // Makes `folder` as it is before the command: old files, where it replaces some.
  void prepare(const std::string& scenario, const fs::path& folder) const;

  const std::string& model() const { return model_; }
  fs::path folder(const std::string& name) const { return scratch_.path() / name; }

 private:
  Scratch scratch_;
  std::string model_;
};

// Runs words with the shim and these variables.
Outcome run_with_shim(const std::vector<std::string>& words,
                      const std::vector<std::string>& variables);

// A file's name and bytes, of all below a folder whose content does not depend on the clock.
std::map<std::string, std::string> files_below(const fs::path& folder);
// Temporary files, unfinished checkpoints: what nobody asked for.
std::vector<std::string> litter_below(const fs::path& folder);

}  // namespace deltasane::test
