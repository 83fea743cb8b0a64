// A model reads one endless stream, or several beside each other, with one state each and no
// resets; what happens is recorded. docs/stream-records.md describes the folder it leaves.
//
// The records are a function of model, source and settings: a run that is killed at any moment and
// resumed ends with the same bytes as one that never stopped. What depends on the clock is kept in
// a file of its own. A state that overflows ends its stream and is a result, not an error.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/io/file.h"
#include "corpus/source.h"
#include "kernel/cpu_device.h"
#include "model/language_model.h"
#include "probe/record_file.h"

namespace deltasane {

struct StreamSettings {
  int64_t tokens = 0;      // of each stream
  int64_t segment = 4096;  // tokens between two records, a multiple of the model's tile
  int64_t heads_every = 0;  // tokens between two records of the heads; 0: see eval/stream/record_rate.h
  int64_t streams = 1;
  std::optional<std::vector<int64_t>> snapshots;  // positions; absent: default_snapshots
  int64_t checkpoint_every = 1 << 16;
  int64_t probe_every = 0, probe_problems = 0;  // 0: no questions
  std::vector<int64_t> probe_at = {};           // or also at these positions, 0 among them or not
  std::string probe_source = {};                // which questions, in full
  bool adaptive = false;                        // see model/adaptive_sane.h

  bool probes() const { return probe_every > 0 || !probe_at.empty(); }
  bool probes_at(int64_t position) const;
};

// 4096, 65536, 524288, 1048576, and from there each doubling, up to `tokens`.
std::vector<int64_t> default_snapshots(int64_t tokens);

struct ProbeOutcome {
  int64_t asked = 0, correct = 0;
};

// Who reads what, and who is asked.
struct StreamParts {
  const LanguageModel& model;
  std::string model_name;
  const corpus::Source& source;
  const Tokenizer& tokenizer;
  kernel::Cpu cpu;
  // Asks questions from a state that must not change.
  std::function<ProbeOutcome(const SequenceState&, int64_t problems)> probe;
  // Asked before each segment; what was read is kept, to resume from.
  std::function<bool()> is_stopped = [] { return false; };
};

struct StreamProgress {
  int64_t position, tokens, began_at;
  int64_t streams;                              // that still read
  double loss, cumulative_loss, norm, largest;  // of the first stream that still reads
};

struct StreamOverflow {
  int64_t stream = 0, position = 0;  // tokens read before the one that broke the state
  int64_t layer = 0, head = 0;       // with the largest |S| in the last state that was finite
  double largest = 0;
};
std::string to_string(const StreamOverflow& overflow);

struct StreamOutcome {
  int64_t position = 0;     // of the streams that did not overflow
  int64_t tokens_read = 0;  // by all streams, since the beginning
  std::optional<int64_t> resumed_at;
  double seconds = 0, recording_seconds = 0;  // of this process
  std::vector<double> cumulative_loss;        // per stream
  std::vector<StreamOverflow> overflows;
  bool stopped = false;  // StreamParts::is_stopped
};

// resume_unverified: also with another content of the corpus or the vocabulary than it began with,
// or from a checkpoint of a version that had no checksum.
enum class OnExisting { refuse, resume, resume_unverified };

// What the records of a run say about it; two runs may share a folder when these are equal.
probe::Settings settings_of(const StreamParts& parts, const StreamSettings& settings);

StreamOutcome run_stream(const StreamParts& parts, const StreamSettings& settings,
                         const fs::path& folder, OnExisting existing,
                         const std::function<void(const StreamProgress&)>& progress);

}  // namespace deltasane
