// Asks a model every problem of a suite, several times each, and keeps what it says.
//
// Sample s of row p of a benchmark draws from the random stream that (benchmark, p, s) names, so
// any subset, shard, order or batch size gives the same samples. Shard I of N has the problems
// whose number in the suite leaves I when divided by N. What is in the folder already is not done
// again.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "eval/run/run_folder.h"
#include "text/chat/chat_template.h"
#include "infer/engine/engine.h"

namespace deltasane::eval {

struct Prefix {
  SequenceState state;
  std::vector<int32_t> pending;  // read before every prompt
  std::string description;       // empty: no prefix; prompts begin a conversation
};

struct BatchSettings {
  SamplerSettings sampler;
  std::vector<std::string> stops;
  int64_t batch = 32;     // sequences at a time
  int64_t tokens = 1024;  // of a text, at most
};

inline constexpr int64_t max_samples = 100'000;  // of one problem

struct EvaluationSettings {
  BatchSettings batch;
  int64_t samples = 8;
  ReplyMode mode = ReplyMode::plain;
  Shard shard;
  ChangedFiles changed = ChangedFiles::refuse;
};

struct EvaluatedModel {
  const LanguageModel& model;
  std::string name;
  const Tokenizer& tokenizer;
  kernel::Cpu cpu;
  const ChatTemplate& chat = world_template();
};

struct EvaluationProgress {
  std::string benchmark;                        // of the problem just judged
  int64_t done = 0, problems = 0, correct = 0;  // in this shard of it
  int64_t all_done = 0, all_problems = 0;       // of all benchmarks
  int64_t tokens = 0;                           // written since the start
};

uint64_t sample_stream(const ProblemKey& problem, int64_t sample);

// The settings as run.json holds them.
std::string settings_json(const EvaluatedModel& model, const Prefix& prefix,
                          const std::vector<Benchmark>& suite, const EvaluationSettings& settings);

// Goes on with the run in `out`, or begins it; returns what this shard has when it is complete.
// The process that completes the last of several shards puts them together.
Run evaluate(const EvaluatedModel& model, const Prefix& prefix, const std::vector<Benchmark>& suite,
             const EvaluationSettings& settings, const fs::path& out,
             const std::function<void(const EvaluationProgress&)>& progress);

}  // namespace deltasane::eval
