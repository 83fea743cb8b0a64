#include "train/run.h"

#include <xxhash.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/hexadecimal.h"
#include "comm/single_group.h"

namespace deltasane::train {
namespace {

std::optional<SaneSettings> wanted_sane(const TrainConfig::Model& model) {
  if (model.sane_alpha == 0) return std::nullopt;
  return SaneSettings{model.sane_alpha, model.sane_chunk};
}

std::unique_ptr<TrainableModel> starting_model(const TrainConfig::Model& model,
                                               const TrainableFactory& factory,
                                               const Tokenizer& tokenizer, const kernel::Cpu& cpu) {
  const auto sane = wanted_sane(model);
  if (!model.from.empty()) return factory.open(model.from, sane);
  const int64_t vocabulary =
      model.vocabulary ? model.vocabulary : int64_t(tokenizer.vocabulary_size());
  return factory.initialise({model.layers, model.channels, model.head_size, vocabulary, model.kind,
                             model.beta_scale},
                            sane, model.initialisation, cpu);
}

std::unique_ptr<BatchSource> open_batches(const TrainConfig& config, const std::string& source,
                                          const Tokenizer& tokenizer, int64_t vocabulary,
                                          const corpus::Cursor& from = {}) {
  const RowSettings rows{config.corpus.answers_only ? Learned::answers : Learned::all,
                         config.corpus.piece_per_row ? RowCut::pieces : RowCut::packed,
                         config.corpus.padding, config.corpus.padding_side};
  return std::make_unique<BatchSource>(source, tokenizer, vocabulary, rows, from);
}

template <class T>
std::vector<T> part_of(const std::vector<T>& all, int part, int parts) {
  const size_t each = all.size() / size_t(parts);
  const auto begin = all.begin() + std::ptrdiff_t(each * size_t(part));
  return {begin, begin + std::ptrdiff_t(each)};
}

const TrainableFactory& factory_of(const TrainConfig::Model& model) {
  if (model.from.empty()) return trainable_factory(model.architecture);
  const fs::path file = model.from;
  return trainable_factory_of(file, model.architecture);
}

}  // namespace

TrainingRun::TrainingRun(const TrainConfig& config, const Tokenizer& tokenizer,
                         const kernel::Cpu& cpu, std::shared_ptr<comm::Group> group,
                         AnswerCheck answers)
    : config_(config),
      answers_(std::move(answers)),
      factory_(factory_of(config.model)),
      tokenizer_(tokenizer),
      cpu_(cpu),
      group_(group ? std::move(group) : std::shared_ptr<comm::Group>(comm::single_group())),
      device_([&] {
        auto model = starting_model(config.model, factory_, tokenizer, cpu);
        plan_ = plan_training(config, *model, *group_);
        plan_.expect_fit(config);
        return open_training_device(
            plan_.device,
            {std::move(model), config.optimizer, config.clip, plan_.pass, config.run.sums}, cpu,
            group_);
      }()),
      layout_(device_->model().layout()),
      vocabulary_(device_->model().description().vocabulary),
      batches_(open_batches(config, config.corpus.source, tokenizer, vocabulary_)) {
  content_ = {{"corpus.source", hexadecimal(content_digest(batches_->source()))},
              {"corpus.tokenizer", hexadecimal(tokenizer.digest())}};
  batches_->expect_rows(config.rows_of_step(), config.context, "corpus.source: one step");
  if (config.evaluation.every > 0 && !config.evaluation.source.empty())
    open_batches(config, config.evaluation.source, tokenizer, vocabulary_)
        ->expect_rows(config.rows_of_evaluation(), config.context, "evaluation.source: one batch");
}

void TrainingRun::restore(std::unique_ptr<TrainableModel> restored, Tensor<float> first,
                          Tensor<float> second, const Progress& progress) {
  if (!restored->same_model(model()))
    fail(Fault::file,
         "checkpoint: expected the shape and SANE settings of this run's model, found "
         "others");
  require(first.elements() == layout_.elements() && second.elements() == layout_.elements(),
          "optimiser state has the layout of the parameters");
  device_->restore(std::move(restored), std::move(first), std::move(second), progress.step);
  progress_ = progress;
  next_.reset();
  batches_ = open_batches(config_, config_.corpus.source, tokenizer_, vocabulary_, progress.cursor);
}

TrainingBatch TrainingRun::own_rows(const TrainingBatch& whole) const {
  const int part = group_->rank(), parts = group_->size();
  return {whole.sequences / parts,
          whole.time,
          part_of(whole.tokens, part, parts),
          part_of(whole.targets, part, parts),
          part_of(whole.weights, part, parts),
          part_of(whole.present, part, parts)};
}

void TrainingRun::expect_agreement() {
  group_->expect_same("step", uint64_t(progress_.step));
  if (group_->size() == 1) return;
  const std::span<const float> all = parameters().all();
  group_->expect_same("parameters", XXH3_64bits(all.data(), all.size_bytes()));
}

TrainingRun::StepBatches TrainingRun::read_batches() {
  StepBatches step;
  step.began = batches_->cursor();
  TrainingBatch whole{rows_at_a_time(), config_.context, {}, {}, {}};
  for (int64_t i = 0; i < plan_.split.accumulate; ++i) {
    batches_->next(whole);
    step.weight_total += whole.weight_total();
    step.tokens += whole.rows();
    step.own.push_back(own_rows(whole));
  }
  step.ended = batches_->cursor();
  return step;
}

StepReport TrainingRun::step() {
  const StepBatches now = next_ ? std::move(*next_) : read_batches();
  next_.reset();
  if (now.weight_total == 0)
    fail(Fault::usage, "corpus.learn: expected an answer among the ", config_.context,
         " tokens of some row, found none in step ", progress_.step + 1,
         "; use longer rows, or learn = \"all\"");
  const std::string where = cat("step ", progress_.step + 1, " (corpus piece ", now.began.piece,
                                ", token ", now.began.token, "): ");
  StepReport report{progress_.step + 1, 0, 0, config_.schedule.at(progress_.step), now.tokens};
  report.loss = device_->gradient(now.own, {now.weight_total, config_.wrap}, [&] {
    if (report.step < config_.schedule.steps) next_ = read_batches();
  });
  if (!std::isfinite(report.loss))
    fail(Fault::overflow, where, "loss: expected a finite number, found ", report.loss,
         "; nothing was updated");
  report.gradient_length = device_->clip(where);
  updating_ = true;
  device_->update(report.rate);
  progress_ = {report.step, progress_.tokens + uint64_t(report.tokens), now.ended};
  updating_ = false;
  return report;
}

double TrainingRun::expected_step_seconds() {
  const double own = device_->trial_seconds() * double(plan_.split.accumulate);
  const auto all = group_->all_gather(std::bit_cast<uint64_t>(own));
  double slowest = 0;
  for (const uint64_t one : all) slowest = std::max(slowest, std::bit_cast<double>(one));
  return slowest;
}

EvaluationReport TrainingRun::evaluate() {
  const TrainConfig::Evaluation& e = config_.evaluation;
  EvaluationReport report{progress_.step, std::nullopt, std::nullopt};
  if (!e.source.empty()) {
    const auto held_out = open_batches(config_, e.source, tokenizer_, vocabulary_);
    double sum = 0, weight = 0;
    TrainingBatch batch{rows_at_a_time(), config_.context, {}, {}, {}};
    const int64_t passes = e.batches * config_.rows_of_evaluation() / rows_at_a_time();
    for (int64_t i = 0; i < passes; ++i) {
      held_out->next(batch);
      weight += batch.weight_total();
      sum += device_->loss(own_rows(batch), {1, 0});
    }
    sum = group_->all_reduce(sum);
    if (weight > 0) report.loss = sum / weight;
  }
  if (e.problems > 0 && answers_ && group_->rank() == 0)
    report.accuracy = answers_(*model().open_for_inference(), e);
  return report;
}

}  // namespace deltasane::train
