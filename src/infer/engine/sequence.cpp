#include "infer/engine/sequence.h"

#include <algorithm>

#include "kernel/sampler/logits_scan.h"

namespace deltasane {
namespace {

constexpr int64_t most_unscanned = 8192;  // tokens between two scans of a long input

bool has_broken_logits(const SequenceInput& input, int64_t vocabulary) {
  if (input.want == Want::sample) return input.sampled->broken >= 0;
  return input.want == Want::last_logits &&
         scan_logits({input.logits.data, size_t(vocabulary)}).first_broken.has_value();
}

}  // namespace

Sequence::Sequence(const LanguageModel& model, const kernel::Cpu& cpu, OnOverflow on_overflow,
                   SequenceState state)
    : model_(model), cpu_(cpu), on_overflow_(on_overflow), state_(std::move(state)) {}

void Sequence::reset() { set_state(model_.fresh_state()); }

void Sequence::set_state(SequenceState state) {
  state_ = std::move(state);
  tokens_.clear(), read_ = 0;
}

void Sequence::append(std::span<const int32_t> tokens) {
  if (!is_reading()) tokens_.clear(), read_ = 0;
  tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
}

int64_t Sequence::next_count(int64_t most) const {
  const int64_t tile = model_.tile(), chunk = model_.prefill_chunk();
  if (is_guarded()) most = std::min(most, most_unscanned);
  const int64_t whole_tiles = std::max(tile, std::min(most, chunk) / tile * tile);
  return std::min(int64_t(tokens_.size() - read_), whole_tiles - state_.position % tile);
}

SequenceInput Sequence::next_input(Want after_last, int64_t most) {
  require(is_reading(), "a sequence has tokens to read");
  const size_t left = tokens_.size() - read_, some = size_t(next_count(most));
  SequenceInput input{{tokens_.data() + read_, some}, &state_};
  if (some == left) input.want = after_last;
  if (is_guarded() && some > 1) before_ = state_.clone();
  return input;
}

SequenceInput Sequence::next_input(Sampler& sampler, kernel::SampledToken& sampled) {
  SequenceInput input = next_input(Want::sample);
  input.sampler = &sampler, input.sampled = &sampled;
  if (is_guarded()) drawn_before_ = sampler.state();
  return input;
}

bool Sequence::take_results(const SequenceInput& input) {
  read_ += input.tokens.size();
  const std::optional<SequenceState> before = std::exchange(before_, std::nullopt);
  if (!is_guarded()) return !has_broken_logits(input, model_.vocabulary());
  if (!before) {
    check_single(input);
  } else if (!scan_state(state_).finite()) {
    state_ = before->clone();
    locate_overflow(input.tokens, input);
  }
  if (input.want == Want::sample && input.sampled->broken >= 0)
    fail(Fault::overflow,
         overflow_message(input.sampled->broken, input.sampled->value, state_.position));
  return true;
}

// After a single token, which is scanned at boundaries only, or when its logits are broken; there is
// no state to go back to.
void Sequence::check_single(const SequenceInput& input) {
  if (state_.position % model_.tile() != 0 && !has_broken_logits(input, model_.vocabulary())) return;
  const StateScan scan = scan_state(state_);
  if (scan.finite()) return;
  const std::string message = overflow_message(*scan.not_finite, state_.position - 1);
  if (on_overflow_ == OnOverflow::stop) fail(Fault::overflow, message);
  const int64_t position = state_.position - 1;
  state_ = model_.fresh_state();
  state_.position = position;
  on_reset(message);
  read_again(input);
}

// The draw that was made from the broken state is taken back.
void Sequence::read_again(const SequenceInput& input) {
  if (input.want == Want::sample && drawn_before_) input.sampler->restore(*drawn_before_);
  model_.forward(input, cpu_);
}

// Reads the tokens again, a chunk at a time, to name the chunk that overflowed.
void Sequence::locate_overflow(std::span<const int32_t> tokens, const SequenceInput& input) {
  while (!tokens.empty()) {
    const SequenceState before = state_.clone();
    const int64_t tile = model_.tile();
    const size_t some = std::min(tokens.size(), size_t(tile - state_.position % tile));
    SequenceInput part{tokens.first(some), &state_};
    if (some == tokens.size()) {
      part = input;
      part.tokens = tokens;
      // What is wanted of every token was there for all of them, before the overflow.
      if (part.want == Want::top_log_probabilities || part.want == Want::losses)
        part = {tokens, &state_};
    }
    read_again(part);
    tokens = tokens.subspan(some);
    const StateScan scan = scan_state(state_);
    if (scan.finite()) continue;
    const std::string message = overflow_message(*scan.not_finite, state_.position - 1);
    if (on_overflow_ == OnOverflow::stop) {
      state_ = before.clone();
      fail(Fault::overflow, message);
    }
    const int64_t position = state_.position;
    state_ = model_.fresh_state();
    state_.position = position;
    on_reset(message);
  }
}

void Sequence::read(std::span<const int32_t> tokens) {
  append(tokens);
  if (logits_.elements() == 0) logits_ = model_.allocate_logits(1);
  while (is_reading()) {
    SequenceInput input = next_input(Want::last_logits);
    if (input.want == Want::last_logits) input.logits = logits_.view();
    model_.forward(input, cpu_);
    take_results(input);
  }
}

void Sequence::save(const fs::path& path, const std::string& model_name, StateStamp stamp) const {
  save_state_of(model_, path, state_, model_name, std::move(stamp));
}

StateStamp Sequence::load(const fs::path& path, const std::string& model_name,
                          OtherSane other_sane) {
  SavedState saved = load_state_of(model_, path, model_name, other_sane);
  reset();
  state_ = std::move(saved.state);
  return saved.stamp;
}

}  // namespace deltasane
