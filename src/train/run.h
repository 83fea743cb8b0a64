// A training run: everything that a step changes, and the step. What is printed, saved and when,
// is the caller's.
//
// Several processes share a run: each takes its part of the rows of every batch, gradients are
// added up, and all make the same update, so that parameters stay equal everywhere. Every process
// reads the whole corpus, which costs little. The rows of a step, and the loss, the mean over all
// its learned tokens, do not depend on the number of processes nor on how many rows each computes
// at a time, but for the rounding of sums.
//
// Resume law: a run that was saved, loaded and continued equals one that never stopped, bit for
// bit (with the same instruction set, or on the same kind of GPU).
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>

#include "comm/group.h"
#include "model/language_model.h"
#include "train/batch_source.h"
#include "train/config.h"
#include "train/training_device.h"
#include "train/training_memory.h"

namespace deltasane::train {

// What a checkpoint keeps besides parameters and optimiser.
struct Progress {
  int64_t step = 0;     // done
  uint64_t tokens = 0;  // seen
  corpus::Cursor cursor;
  friend bool operator==(const Progress&, const Progress&) = default;
};

struct StepReport {
  int64_t step = 0;  // counts from 1
  double loss = 0, gradient_length = 0, rate = 0;
  int64_t tokens = 0;
};

struct EvaluationReport {
  int64_t step = 0;
  std::optional<double> loss, accuracy;
};

using AnswerCheck = std::function<double(const LanguageModel&, const TrainConfig::Evaluation&)>;

class TrainingRun {
 public:
  // The model of `config`, at step 0. `group`: the processes that share the run; absent: this one.
  // `answers`: how well the model answers; absent: nobody asks.
  TrainingRun(const TrainConfig& config, const Tokenizer& tokenizer, const kernel::Cpu& cpu,
              std::shared_ptr<comm::Group> group = nullptr, AnswerCheck answers = {});

  // A loss or gradient that is not finite fails before anything is updated, and says where.
  StepReport step();
  EvaluationReport evaluate();
  void expect_agreement();  // fails where the processes of a run have come apart
  // From a trial pass, which changes nothing.
  double expected_step_seconds();
  bool finished() const { return progress_.step >= config_.schedule.steps; }

  const TrainConfig& config() const { return config_; }
  const ParameterLayout& layout() const { return layout_; }
  const TrainableFactory& factory() const { return factory_; }
  const TrainableModel& model() const { return device_->model(); }
  const Parameters& parameters() const { return model().parameters(); }
  const Optimizer& optimizer() const { return device_->optimizer(); }
  std::string sums_by() const { return device_->sums_by(); }
  const Progress& progress() const { return progress_; }
  // Digests of the files that it learns from, by the key that names them.
  const std::map<std::string, std::string>& content() const { return content_; }
  // False after an error in the middle of an update: then there is nothing worth saving.
  bool is_whole() const { return !updating_; }
  const TrainingPlan& plan() const { return plan_; }

  // Continues from what a checkpoint held.
  void restore(std::unique_ptr<TrainableModel> model, Tensor<float> first, Tensor<float> second,
               const Progress& progress);

 private:
  // What one step learns from: this process's rows, and where the corpus stood before and after.
  struct StepBatches {
    std::vector<TrainingBatch> own;
    double weight_total = 0;  // of all processes' rows
    int64_t tokens = 0;       // the same
    corpus::Cursor began, ended;
  };
  StepBatches read_batches();
  int64_t rows_at_a_time() const { return plan_.split.micro_batch * group_->size(); }
  TrainingBatch own_rows(const TrainingBatch& whole) const;

  TrainConfig config_;
  AnswerCheck answers_;
  const TrainableFactory& factory_;
  const Tokenizer& tokenizer_;
  kernel::Cpu cpu_;
  std::shared_ptr<comm::Group> group_;
  TrainingPlan plan_;
  std::unique_ptr<TrainingDevice> device_;
  ParameterLayout layout_;
  int64_t vocabulary_;
  Progress progress_;
  bool updating_ = false;
  std::map<std::string, std::string> content_;
  std::unique_ptr<BatchSource> batches_;
  std::optional<StepBatches> next_;  // read while a device worked
};

}  // namespace deltasane::train
