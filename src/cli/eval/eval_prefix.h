// The flags of what a model has read before it is asked: a state file, or tokens of a corpus.
#pragma once

#include <cstdint>
#include <string>

#include "cli/open_model.h"
#include "eval/run/evaluate.h"
#include "infer/state_scan.h"

namespace CLI {
class App;
}

namespace deltasane::cli {

struct PrefixFlags {
  std::string state, corpus;
  int64_t tokens = 0;
  bool other_sane = false;

  void describe(CLI::App& app);
  // A corpus is read once: its state is kept in the run's folder for shards and later calls.
  eval::Prefix open(OpenModel& model, const Tokenizer& tokenizer, const fs::path& out,
                    OnOverflow on_overflow) const;
};

}  // namespace deltasane::cli
