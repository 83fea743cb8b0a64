// The configuration of a training run, read from TOML. An unknown key is an error that names the
// nearest known one.
//
//   [model]       from = "FILE", or layers, channels, head_size (64), vocabulary (the tokenizer's),
//                 seed (1), decay_bias_shift (0), rate_bias_shift (0);
//                 architecture (that of the file, or the first there is), kind (of model, where
//                 an architecture has several: its first);
//                 sane_alpha (0: no SANE), sane_chunk (16)
//   [corpus]      source = "math-chat:..." and so on, tokenizer = "byte", tokenizer.json, ...;
//                 learn = "all" or "answers"; rows = "packed", or "pieces": one in each row, filled
//                 up with padding; padding_side = "left" or "right": where it is filled up;
//                 padding (-1: none): an id that is padding wherever it stands
//   [optimizer]   kind = "adamw" or "muon"; precision = "fp32" or "bf16"; steps, context;
//                 rows of a step; or sequences (8) rows at a time, accumulate (1) times a step;
//                 rate, first_rate (rate / 100), last_rate (rate / 10), warmup (steps / 33);
//                 weight_decay (0.1), beta1 (0.9), beta2, epsilon (muon: 0.999, 1e-7;
//                 adamw: 0.99, 1e-18), momentum (0.95), clip (1), wrap (0)
//   [evaluation]  every (0: never) steps; source, batches (4): held-out loss;
//                 problems (0), answers: a math-chat description for answer accuracy,
//                 longest_answer (96) tokens
//   [run]         folder, save_every (0: at the end only), keep (2), threads (0: all),
//                 recompute (where kept activations do not fit): keep only each layer's input,
//                 micro_batch (as fits): rows that a process computes at a time, with
//                 optimizer.rows; metrics_every (1),
//                 device = "cpu" or "cuda[:n]"; a run may continue on another;
//                 of several processes with a GPU each: sums = "best", "nccl" or "host",
//                 share_gpu (false): whether two may work on one
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
TrainConfig read_config(std::string_view toml, const std::string& name,
                        std::span<const std::string> overrides = {});

}  // namespace deltasane::train
