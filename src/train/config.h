// The configuration of a training run, read from TOML. An unknown key is an error that names the
// nearest known one.
// The keys are declared in config.cpp; docs/training-keys.md lists them.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>

#include "comm/device_all_reduce.h"
#include "model/train/trainable_model.h"
#include "train/batch_source.h"
#include "train/optimizer/optimizer.h"
#include "train/optimizer/precision.h"

namespace deltasane::train {

struct TrainConfig {
  struct Model {
    std::string from, architecture;
    std::string kind;
    int64_t layers = 0, channels = 0, head_size = 64, vocabulary = 0;
    double beta_scale = 0;
    Initialisation initialisation;
    double sane_alpha = 0;
    int64_t sane_chunk = 16;
  } model;
  struct Corpus {
    std::string source, tokenizer = "byte";
    bool answers_only = false, piece_per_row = false;
    int64_t padding = -1;
    PaddingSide padding_side = PaddingSide::left;
  } corpus;
  OptimizerSettings optimizer;
  RateSchedule schedule;
  Precision precision = Precision::fp32;
  int64_t rows = 0;  // of a step; 0: sequences x accumulate, as they are
  int64_t sequences = 8, context = 128, accumulate = 1;
  double clip = 1, wrap = 0;
  struct Evaluation {
    int64_t every = 0, batches = 4, problems = 0, longest_answer = 96;
    std::string source, answers;
  } evaluation;
  struct Run {
    std::string folder, device = "cpu";
    int64_t save_every = 0, keep = 2, threads = 0, metrics_every = 1;
    int64_t micro_batch = 0;        // 0: as fits
    std::optional<bool> recompute;  // none: where kept activations do not fit
    comm::DeviceAllReduceSettings sums;
  } run;

  // Keys with a default that changed between versions, where the file leaves them out.
  std::set<std::string> unstated;

  int64_t rows_of_step() const { return rows ? rows : sequences * accumulate; }
  int64_t rows_of_evaluation() const { return rows ? rows : sequences; }  // of one batch

  // What a resumed run must share with the one it continues: [model], [corpus], [optimizer].
  std::map<std::string, std::string> identity() const;
};

// overrides: "section.key=value" each, as if the file had it; the value is TOML, or else a text.
// Both names are for messages: of the file, and of where the overrides are from.
TrainConfig read_config(std::string_view toml, const std::string& name,
                        std::span<const std::string> overrides = {},
                        const std::string& overrides_name = "override");

}  // namespace deltasane::train
