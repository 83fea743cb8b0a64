#include "cli/text/sampling_flags.h"

#include <CLI/CLI.hpp>

#include "cli/number_range.h"

namespace deltasane::cli {

void SamplingFlags::describe(CLI::App& app) {
  app.add_option("--temperature", settings.temperature, "0: always the most probable token")
      ->capture_default_str();
  app.add_option("--top-p", settings.top_p, "draw from the most probable tokens that reach p")
      ->capture_default_str();
  app.add_option("--top-k", settings.top_k, "draw from the k most probable tokens; 0: off")
      ->capture_default_str();
  app.add_option("--presence-penalty", settings.presence_penalty, "against tokens that came before")
      ->capture_default_str();
  app.add_option("--frequency-penalty", settings.frequency_penalty, "the same, for each time")
      ->capture_default_str();
  app.add_option("--penalty-decay", settings.penalty_decay, "how fast penalties are forgotten")
      ->capture_default_str();
  seed_ = app.add_option("-s,--seed", settings.seed, "the same seed draws the same tokens")
              ->check(whole_number(0, 64))
              ->capture_default_str();
  app.add_option("--on-overflow", overflow, "stop, or reset the state and continue")
      ->capture_default_str();
}

bool SamplingFlags::has_seed() const { return seed_ != nullptr && seed_->count() > 0; }

}  // namespace deltasane::cli
