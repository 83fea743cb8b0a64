// What a sweep does, as its flags say it, and where its parts lie.
#pragma once

#include <cstdint>
#include <cstdio>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/io/file.h"

namespace deltasane::cli {

struct SweepOptions {
  std::string model, config, out, corpus, suite, tokenizer, problems, mode = "plain";
  std::vector<std::string> set, devices{"cpu"};
  std::vector<double> alphas{0, 1, 2, 3, 5, 10};
  std::optional<int64_t> seed;
  bool json = false;  // results as JSON, and what commands print in log files
  int64_t tokens = 0, samples = 8, limit = 0, answer_tokens = 1024, batch = 32, steps = 0;

  bool trains() const { return !config.empty(); }
  bool asks() const { return !suite.empty(); }
  bool streams() const { return tokens > 0; }
  // For what is said meanwhile.
  std::FILE* told() const { return json ? stderr : stdout; }
  fs::path told_by_commands() const { return json ? "/dev/stderr" : ""; }  // for run_own
  // What a folder that is resumed must agree in, by flag. Alphas, devices and the batch may
  // differ: they change no result.
  std::map<std::string, std::string> settings() const;
  // SECTION.KEY=VALUE for train.
  std::vector<std::string> train_settings(double alpha, const fs::path& folder) const;
};

std::string run_name(double alpha);  // "baseline" or "alpha-3"

}  // namespace deltasane::cli
