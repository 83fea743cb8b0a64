#include "infer/batch_step.h"

namespace deltasane {

void BatchStep::step(std::span<SteppedSequence> rows) {
  tokens_.clear(), states_.clear();
  for (SteppedSequence& row : rows) {
    tokens_.push_back(row.token), states_.push_back(row.state);
    row.next.reset();
  }
  if (pick_on_gpu(rows)) return;
  const auto count = int64_t(rows.size());
  const int64_t vocabulary = model_.shape().vocabulary;
  if (logits_.elements() < count * vocabulary) logits_ = model_.room_for_logits(count);
  const View<float> logits = logits_.view().part(0, 0, count);
  model_.step(tokens_, states_, logits, cpu_);
  cpu_.threads.parallel(count, [&](int64_t i) {
    SteppedSequence& row = rows[size_t(i)];
    if (row.sampler)
      row.next =
          row.sampler->next_if_finite({logits.at(i), size_t(vocabulary)}, row.state->position);
  });
}

bool BatchStep::pick_on_gpu(std::span<SteppedSequence> rows) {
  if (!model_.on_gpu()) return false;
  std::vector<kernel::cuda::Picking> picking;
  std::vector<kernel::cuda::TokenPenalty> penalties;
  for (const SteppedSequence& row : rows) {
    picking.emplace_back().greedy = true;
    if (row.sampler) picking.back() = row.sampler->picking(penalties);
  }
  std::vector<kernel::cuda::Picked> picked(rows.size());
  if (!model_.step_and_pick(tokens_, states_, {picking, penalties, picked})) return false;
  for (size_t i = 0; i < rows.size(); ++i)
    if (rows[i].sampler && picked[i].broken < 0)
      rows[i].next =
          rows[i].sampler->take(picked[i], model_.shape().vocabulary, rows[i].state->position);
  return true;
}

}  // namespace deltasane
