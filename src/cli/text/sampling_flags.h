// The flags of commands that write text: how tokens are drawn, and what to do on overflow.
#pragma once

#include <string>

#include "infer/state_scan.h"
#include "kernel/sampler/sampler_settings.h"

namespace CLI {
class App;
class Option;
}

namespace deltasane::cli {

struct SamplingFlags {
  SamplerSettings settings;
  std::string overflow = "stop";

  void describe(CLI::App& app);
  bool has_seed() const;  // was given
  OnOverflow on_overflow() const { return on_overflow_named(overflow); }

 private:
  const CLI::Option* seed_ = nullptr;
};

}  // namespace deltasane::cli
