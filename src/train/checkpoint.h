// A run on disk: folder/step_00000100/ with
//
//   model.safetensors      the parameters, as `convert` writes them; any command reads it
//   optimizer.safetensors  first, second: in the layout of the parameters
//   progress.json          steps and tokens done, and where the corpus stands
//   config.json            the configuration ([model], [corpus], [optimizer]) and digests of the
//                          corpus and the vocabulary
//   manifest.json          size and xxh3 of each of the others
//
// A checkpoint is written beside its place, flushed to the disk, and renamed: it is there as a
// whole or not at all. What does not agree with its manifest is passed over, and said so.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/io/file_digest.h"
#include "train/run.h"

namespace deltasane::train {

// Writes the run's checkpoint and then removes all but the `keep` newest. Fails without a trace
// where the disk is full; checkpoints that were there stay.
fs::path save_checkpoint(const fs::path& folder, const TrainingRun& run, int64_t keep);

// Brings the run to the newest checkpoint that is whole; returns it. Fails where there is none, or
// where it was made under another configuration, or with other content of the corpus or the
// vocabulary: the first key that differs is named. What was passed over is appended to
// `passed_over`.
fs::path resume_newest(const fs::path& folder, TrainingRun& run,
                       std::vector<std::string>& passed_over,
                       ChangedFiles changed = ChangedFiles::refuse);

// Before a run that resumes from nothing writes to a folder: refuses one that has checkpoints.
// `resume`: how the caller's users ask for it.
void expect_no_checkpoints(const fs::path& folder, std::string_view resume);

// Removes what runs that were killed left behind. For the one who holds the folder.
void remove_unfinished(const fs::path& folder);

// Before a run is resumed: what its configuration leaves to defaults is as its newest checkpoint
// has it, so that a run that an older version began continues.
void take_settings_of_newest(const fs::path& folder, TrainConfig& config);

std::vector<fs::path> checkpoints_in(const fs::path& folder);  // by step

// What one checkpoint of so many parameters takes on disk: the model and two numbers of the
// optimizer for each.
uint64_t checkpoint_bytes(int64_t parameters);

}  // namespace deltasane::train
