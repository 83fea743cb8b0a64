#include "kernel/sampler/sampler.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/error.h"
#include "base/random.h"
#include "kernel/sampler/logits_scan.h"

namespace deltasane {
namespace {

bool uses_counts(const SamplerSettings& settings) {
  return settings.presence_penalty != 0 || settings.frequency_penalty != 0;
}

// One block of the random number generator for each draw.
double uniform_of(const SamplerState& state) {
  return Random(state.seed, state.stream, 4 * state.draws).uniform();
}

[[noreturn]] void fail_banned(int64_t vocabulary) {
  fail(Fault::argument, "logits: expected at least one token that is not banned, found none of ",
       vocabulary);
}

}  // namespace

Sampler::Sampler(const SamplerSettings& settings, uint64_t stream)
    : Sampler(settings, SamplerState{settings.seed, stream, 0, {}}) {}

Sampler::Sampler(const SamplerSettings& settings, SamplerState state)
    : settings_(settings), state_(std::move(state)) {
  validate(settings_);
}

float Sampler::penalty(const TokenCount& entry) const {
  return float(settings_.presence_penalty + settings_.frequency_penalty * entry.count);
}

std::span<const float> Sampler::penalised(std::span<const float> logits) {
  if (!uses_counts(settings_) || state_.counts.empty()) return logits;
  if (state_.counts.back().token >= int64_t(logits.size()))
    fail(Fault::argument, "sampler state: expected tokens below ", logits.size(), ", found ",
         state_.counts.back().token);
  penalised_.assign(logits.begin(), logits.end());
  for (const TokenCount& entry : state_.counts) penalised_[size_t(entry.token)] -= penalty(entry);
  return penalised_;
}

int32_t Sampler::draw(std::span<const float> logits, float largest) {
  if (settings_.temperature == 0)
    return int32_t(std::ranges::find(logits, largest) - logits.begin());
  selection_.select(logits, largest, settings_);
  return selection_.draw(uniform_of(state_));
}

int32_t Sampler::next(std::span<const float> logits, std::optional<int64_t> position) {
  LogitsScan scan = scan_logits(logits);
  if (scan.first_broken)
    fail(Fault::overflow,
         overflow_message(*scan.first_broken, logits[size_t(*scan.first_broken)], position));
  if (std::isinf(scan.largest)) fail_banned(int64_t(logits.size()));
  const std::span<const float> adjusted = penalised(logits);
  if (adjusted.data() != logits.data()) scan = scan_logits(adjusted);
  return counted(draw(adjusted, scan.largest));
}

kernel::SampledToken Sampler::sample(std::span<const float> logits, int64_t position) {
  kernel::SampledToken found;
  if (const auto broken = scan_logits(logits).first_broken) {
    found.broken = int32_t(*broken), found.value = logits[size_t(*broken)];
    return found;
  }
  found.token = next(logits, position);
  return found;
}

kernel::SamplingParams Sampler::params(std::vector<kernel::TokenPenalty>& penalties) const {
  const bool after = settings_.temperature_order == TemperatureOrder::after_filters;
  const auto scale = [](double temperature) { return float(1.4426950408889634 / temperature); };
  kernel::SamplingParams how;
  how.greedy = settings_.temperature == 0;
  if (!how.greedy) {
    how.scale = scale(settings_.temperature);
    how.filter_scale = scale(after ? 1.0 : settings_.temperature);
    how.uniform = uniform_of(state_);
  }
  how.top_p = settings_.top_p, how.top_k = settings_.top_k;
  how.penalties_begin = int64_t(penalties.size());
  if (uses_counts(settings_))
    for (const TokenCount& entry : state_.counts)
      penalties.push_back({entry.token, penalty(entry)});
  how.penalties_end = int64_t(penalties.size());
  return how;
}

int32_t Sampler::accept(const kernel::SampledToken& sampled, int64_t vocabulary,
                        std::optional<int64_t> position) {
  if (sampled.broken >= 0)
    fail(Fault::overflow, overflow_message(sampled.broken, sampled.value, position));
  if (sampled.token < 0) fail_banned(vocabulary);
  return counted(sampled.token);
}

int32_t Sampler::counted(int32_t token) {
  ++state_.draws;
  if (uses_counts(settings_)) state_.count(token, settings_.penalty_decay);
  return token;
}

}  // namespace deltasane
