#include "model/language_model.h"

#include <algorithm>
#include <vector>

namespace deltasane {

LanguageModel::LanguageModel(ModelDescription description, StateLayout layout, const SaneUse& sane,
                             const Device& device)
    : description_(std::move(description)),
      layout_(std::make_shared<const StateLayout>(std::move(layout))),
      sane_(sane),
      device_(device) {}

Tensor<float> LanguageModel::allocate_logits(int64_t rows) const {
  return Tensor<float>({rows, vocabulary()});
}

void LanguageModel::check(const SequenceInput& one) const {
  const auto count = int64_t(one.tokens.size());
  require(one.state != nullptr, "a sequence has a state");
  if (one.state->shared_layout() != layout_ && one.state->layout() != *layout_)
    fail(Fault::argument, "state: expected that of this model, found another: ",
         layout_->difference(one.state->layout()));
  if (!one.state->alphas.empty() && one.state->alphas.size() != layout_->heads().size())
    fail(Fault::argument, "state: expected an alpha for each of ", layout_->heads().size(),
         " heads or none, found ", one.state->alphas.size());
  const auto expect_ids = [&](std::span<const int32_t> ids) {
    for (const int32_t id : ids)
      if (id < 0 || id >= vocabulary())
        fail(Fault::argument, "token: expected 0 to ", vocabulary() - 1, ", found ", id);
  };
  expect_ids(one.tokens);
  switch (one.want) {
    case Want::nothing:
      break;
    case Want::last_logits:
      return expect_shape("logits", one.logits, {1, vocabulary()});
    case Want::all_logits:
      return expect_shape("logits", one.logits, {count, vocabulary()});
    case Want::losses:
      require(one.targets.size() == one.tokens.size() && one.losses.size() == one.tokens.size(),
              "every token has a target and a loss");
      return expect_ids(one.targets);
    case Want::top_log_probabilities:
      require((one.top_count > 0 || !one.targets.empty()) && one.top_count <= vocabulary() &&
                  int64_t(one.top.size()) == count * one.top_count,
              "there is room for the likeliest tokens after each token");
      require(one.targets.empty() || (one.targets.size() == one.tokens.size() &&
                                      one.losses.size() == one.tokens.size()),
              "every token has a target and a loss, or none has");
      return expect_ids(one.targets);
    case Want::sample:
      require(one.sampler && one.sampled && count > 0, "a sampler draws after a token");
      break;
  }
}

void LanguageModel::check(std::span<const SequenceInput> batch) const {
  std::vector<const SequenceState*> states;
  for (const SequenceInput& one : batch) check(one), states.push_back(one.state);
  std::ranges::sort(states);
  require(std::ranges::adjacent_find(states) == states.end(), "each sequence has its own state");
}

void LanguageModel::forward(std::span<const SequenceInput> batch, const kernel::Cpu& cpu) const {
  check(batch);
  if (!batch.empty()) run(batch, cpu);
}

void LanguageModel::forward(std::span<const SequenceInput> batch, const kernel::Cpu& cpu,
                            const Beside& beside) const {
  check(batch);
  if (batch.empty())
    beside();
  else
    run_beside(batch, cpu, beside);
}

double score(const LanguageModel& model, std::span<const int32_t> tokens,
             std::span<const int32_t> targets, SequenceState& state, std::span<double> losses,
             const kernel::Cpu& cpu, TauRecord* taus) {
  SequenceInput input{tokens, &state, Want::losses};
  input.targets = targets, input.losses = losses, input.taus = taus;
  model.forward(input, cpu);
  double sum = 0;
  for (const double loss : losses) sum += loss;
  return sum;
}

}  // namespace deltasane
