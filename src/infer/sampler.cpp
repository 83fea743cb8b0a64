#include "infer/sampler.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/error.h"
#include "base/random.h"
#include "infer/finite.h"

namespace deltasane {
namespace {

bool uses_counts(const SamplerSettings& settings) {
  return settings.presence_penalty != 0 || settings.frequency_penalty != 0;
}

// One block of the generator for each draw.
double uniform_of(const SamplerState& state) {
  return Random(state.seed, state.stream, 4 * state.draws).uniform();
}

}  // namespace

Sampler::Sampler(const SamplerSettings& settings, uint64_t stream)
    : Sampler(settings, SamplerState{settings.seed, stream, 0, {}}) {}

Sampler::Sampler(const SamplerSettings& settings, SamplerState state)
    : settings_(settings), state_(std::move(state)) {
  validate(settings_);
}

std::span<const float> Sampler::penalised(std::span<const float> logits) {
  if (!uses_counts(settings_) || state_.counts.empty()) return logits;
  if (state_.counts.back().token >= int64_t(logits.size()))
    fail(Fault::argument, "sampler state: expected tokens below ", logits.size(), ", found ",
         state_.counts.back().token);
  penalised_.assign(logits.begin(), logits.end());
  for (const TokenCount& entry : state_.counts)
    penalised_[size_t(entry.token)] -=
        float(settings_.presence_penalty + settings_.frequency_penalty * entry.count);
  return penalised_;
}

int32_t Sampler::pick(std::span<const float> logits, float largest) {
  if (settings_.temperature == 0)
    return int32_t(std::ranges::find(logits, largest) - logits.begin());
  selection_.select(logits, largest, settings_);
  return selection_.draw(uniform_of(state_));
}

int32_t Sampler::next(std::span<const float> logits, std::optional<int64_t> position) {
  LogitsScan scan = scan_logits(logits);
  if (scan.first_broken)
    fail(Fault::overflow, overflow_message(logits, *scan.first_broken, position));
  if (std::isinf(scan.largest))
    fail(Fault::argument, "logits: expected at least one token that is not banned, found none of ",
         logits.size());
  const std::span<const float> adjusted = penalised(logits);
  if (adjusted.data() != logits.data()) scan = scan_logits(adjusted);
  const int32_t token = pick(adjusted, scan.largest);
  ++state_.draws;
  if (uses_counts(settings_)) state_.count(token, settings_.penalty_decay);
  return token;
}

}  // namespace deltasane
