#include "infer/session.h"

#include <algorithm>

namespace deltasane {
namespace {

constexpr int64_t most_unscanned = 8192;  // tokens between two scans of a long input
constexpr int64_t boundary = 16;

}  // namespace

Session::Session(const Rwkv7& model, const kernel::Cpu& cpu, OnOverflow on_overflow)
    : model_(model),
      cpu_(cpu),
      on_overflow_(on_overflow),
      state_(model.fresh_state()),
      logits_(model.room_for_logits(1)) {}

void Session::read(std::span<const int32_t> tokens) {
  const int64_t block = std::min(most_unscanned, model_.reading_block());
  while (!tokens.empty()) {
    const size_t some = std::min(tokens.size(), size_t(block - state_.position % boundary));
    read_block(tokens.first(some));
    tokens = tokens.subspan(some);
  }
}

void Session::read_block(std::span<const int32_t> tokens) {
  const bool single = tokens.size() == 1;
  const RecurrentState before = single ? RecurrentState() : state_.clone();
  model_.forward(tokens, state_, Rwkv7::Logits::last, logits_.view(), cpu_);
  if (!single) {
    if (!scan_state(state_).finite()) find_the_break(tokens, before);
    return;
  }
  if (!is_whole(scan_logits(logits_.span()).first_broken.has_value()))
    model_.forward(tokens, state_, Rwkv7::Logits::last, logits_.view(), cpu_);
}

int32_t Session::read_and_pick(int32_t token, Sampler& sampler) {
  std::vector<kernel::cuda::TokenPenalty> penalties;
  const kernel::cuda::Picking how[] = {sampler.picking(penalties)};
  kernel::cuda::Picked picked[1];
  RecurrentState* const states[] = {&state_};
  const auto step = [&] {
    return model_.step_and_pick({&token, 1}, states, {how, penalties, picked});
  };
  if (!step()) {
    read({&token, 1});
    return sampler.next(logits(), state_.position);
  }
  if (!is_whole(picked[0].broken >= 0)) step();
  return sampler.take(picked[0], model_.shape().vocabulary, state_.position);
}

// After a single token, which is scanned at boundaries only, or when its logits are broken; there
// is nothing to look back into. False: the state was reset, and the token is to be read again.
bool Session::is_whole(bool broken_logits) {
  if (state_.position % boundary != 0 && !broken_logits) return true;
  const StateScan scan = scan_state(state_);
  if (scan.finite()) return true;
  const std::string message = overflow_message(*scan.not_finite, state_.position - 1);
  if (on_overflow_ == OnOverflow::stop) fail(Fault::overflow, message);
  const int64_t position = state_.position;
  reset();
  state_.position = position - 1;
  on_reset(message);
  return false;
}

// Reads the block again, a chunk at a time, to name the chunk that broke.
void Session::find_the_break(std::span<const int32_t> tokens, const RecurrentState& before) {
  state_ = before.clone();
  while (!tokens.empty()) {
    const RecurrentState whole = state_.clone();
    const size_t some = std::min(tokens.size(), size_t(boundary - state_.position % boundary));
    model_.forward(tokens.first(some), state_, Rwkv7::Logits::last, logits_.view(), cpu_);
    tokens = tokens.subspan(some);
    const StateScan scan = scan_state(state_);
    if (scan.finite()) continue;
    const std::string message = overflow_message(*scan.not_finite, state_.position - 1);
    const int64_t position = state_.position;
    if (on_overflow_ == OnOverflow::stop) {
      state_ = whole.clone();
      fail(Fault::overflow, message);
    }
    reset();
    state_.position = position;
    on_reset(message);
  }
}

void Session::save(const fs::path& path, const std::string& model_name, StateStamp stamp) const {
  stamp.model_identity = model_.identity();
  stamp.model_name = model_name;
  stamp.sane = model_.sane();
  save_state(path, state_, stamp);
}

StateStamp Session::load(const fs::path& path, const std::string& model_name,
                         OtherSane other_sane) {
  SavedState saved = load_state(
      path, {model_.identity(), model_name, model_.state_shape(), model_.sane(), other_sane});
  state_ = std::move(saved.state);
  return saved.stamp;
}

}  // namespace deltasane
