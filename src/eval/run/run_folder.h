// A run on disk: its settings, every sample, and the vote on every problem.
//
//   run.json        the settings; a run continues only with the same ones, and the same content of
//                   model, vocabulary, prefix and problems, of which it has digests
//   samples.jsonl   {benchmark, row, sample, text, tokens, ended}
//   problems.jsonl  {benchmark, row, gold, answers, groups, verdicts, winner, votes, correct}
//   scores.json     written when the run is complete
//
// run.json and every line of the journals end with a checksum. Runs of versions that had none are
// read; they are resumed only where the user allows it, and have checksums from then on.
//
// A shard of a run is a folder shard-I-of-N inside it with the first three files.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/io/file_digest.h"
#include "eval/run/vote.h"
#include "eval/suite/suite.h"

namespace deltasane::eval {

using ProblemKey = std::pair<std::string, int64_t>;  // benchmark, row

struct SampleRow {
  ProblemKey problem;
  int64_t sample = 0;
  std::string text, ended;
  int64_t tokens = 0;
};
std::string to_json(const SampleRow& row);
SampleRow sample_from_json(const std::string& line, const std::string& where);

// What is kept of a vote.
struct ProblemRow {
  ProblemKey problem;
  bool correct = false;
  int64_t samples = 0, right_samples = 0, unparsed = 0, refused = 0;
};
std::string to_json(const ProblemKey& problem, const std::string& gold, const Vote& vote);
ProblemRow problem_from_json(const std::string& line, const std::string& where);

struct RunBenchmark {
  std::string name, title;
  int64_t problems = 0;  // how many the run has when it is complete
  std::map<int64_t, ProblemRow> done;
  std::map<std::pair<int64_t, int64_t>, bool> overflowed{};  // (row, sample): ended by an overflow
};

struct RunScore {
  int64_t problems = 0, correct = 0, refused = 0;
  int64_t samples = 0, overflowed = 0;  // written so far; of these, ended by an overflow
  double accuracy = 0, pass_at_1 = 0, unparsed = 0;  // percent
};
RunScore score_of(const RunBenchmark& benchmark);

struct Run {
  std::string name;      // of the folder
  std::string settings;  // run.json
  std::string sane;      // "none", "trained", "run-time"
  double alpha = 0;      // 0: without SANE
  std::vector<RunBenchmark> benchmarks;
  std::string prefix = {};  // what the model had read before it was asked; empty: nothing
  bool sealed = true;    // with checksums

  bool complete() const;
  std::string missing() const;  // "3 of 10 problems of gsm8k"; empty when complete
};

struct Shard {
  int64_t index = 0, count = 1;
};
Shard shard_from(const std::string& text);  // "0/4"; anything else fails
fs::path shard_folder(const fs::path& run, const Shard& shard);

// The run in this folder, with its shards.
Run read_run(const fs::path& folder);

// Puts the shards of all these folders together as one run in `out`, rows in order.
Run merge_runs(std::span<const fs::path> folders, const fs::path& out);

void write_scores(const Run& run, const fs::path& folder);

// Makes the folder and run.json, or fails where samples of a run with other settings are there.
// `allow`: digests may differ, and an older run need not have any.
void claim_folder(const fs::path& folder, const std::string& settings,
                  ChangedFiles changed = ChangedFiles::refuse);

}  // namespace deltasane::eval
