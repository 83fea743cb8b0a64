#include "kernel/sampler/token_selection.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "kernel/sampler/token_weights.h"

namespace deltasane {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

bool more_probable(const TokenLogit& a, const TokenLogit& b) {
  return a.logit != b.logit ? a.logit > b.logit : a.token < b.token;
}

// The cutoff of a nucleus is in [least, above): the nucleus has every token with a logit of `above`
// or more, and of those in the range as many, most probable first, as bring it to the mass that is
// needed.
struct CutoffRange {
  float least, above;
  TokenMass in_least, in_above;  // of the tokens from there on
};

// Bisects the range until few tokens are in it, or only equal ones.
void narrow(CutoffRange& cutoff, std::span<const float> logits, std::span<const float> weights,
            double needed) {
  constexpr int64_t few = 512;
  while (cutoff.in_least.tokens - cutoff.in_above.tokens > few) {
    const float middle = cutoff.least + (cutoff.above - cutoff.least) / 2;
    if (middle <= cutoff.least || middle >= cutoff.above) return;
    const TokenMass in_middle = mass_from(weights, logits, middle);
    if (in_middle.mass < needed) {
      cutoff.above = middle;
      cutoff.in_above = in_middle;
    } else {
      cutoff.least = middle;
      cutoff.in_least = in_middle;
    }
  }
}

std::vector<TokenLogit> tokens_in(const CutoffRange& cutoff, std::span<const float> logits) {
  constexpr size_t block = 16;
  std::vector<TokenLogit> found;
  for (size_t i = 0; i < logits.size(); i += block) {
    const size_t end = std::min(i + block, logits.size());
    if (!any_between(logits.subspan(i, end - i), cutoff.least, cutoff.above)) continue;
    for (size_t at = i; at < end; ++at)
      if (logits[at] >= cutoff.least && logits[at] < cutoff.above)
        found.push_back({int32_t(at), logits[at]});
  }
  return found;
}

}  // namespace

std::vector<TokenLogit> largest_logits(std::span<const float> logits, int64_t count) {
  constexpr size_t block = 64;
  const auto wanted = size_t(std::min(count, int64_t(logits.size())));
  std::vector<TokenLogit> found;
  if (wanted == 0) return found;
  found.reserve(std::max(2 * wanted, block));
  // Once `wanted` are found, only a logit above the least of them can displace one: a later token
  // with an equal logit comes after it.
  float least = -infinity;
  const auto keep_best = [&] {
    if (found.size() < wanted) return;
    std::nth_element(found.begin(), found.begin() + int64_t(wanted) - 1, found.end(),
                     more_probable);
    found.resize(wanted);
    least = found.back().logit;
  };
  for (size_t i = 0; i < logits.size(); i += block) {
    const size_t end = std::min(i + block, logits.size());
    if (!any_between(logits.subspan(i, end - i), least, infinity)) continue;
    for (size_t at = i; at < end; ++at) {
      if (!(logits[at] > least)) continue;
      found.push_back({int32_t(at), logits[at]});
      if (found.size() == found.capacity()) keep_best();
    }
  }
  keep_best();
  std::ranges::sort(found, more_probable);
  return found;
}

// Keeps of the list what reaches the mass that is needed; weights_ has all tokens. False, and all
// of the list stays, where it is not reached.
bool TokenSelection::cut_list(double needed) {
  double mass = 0;
  for (size_t kept = 0; kept < list_.size();) {
    mass += weights_[size_t(list_[kept++].token)];
    if (mass < needed) continue;
    list_.resize(kept);
    return true;
  }
  return false;
}

// Keeps a nucleus of any size as weights.
void TokenSelection::select_nucleus(std::span<const float> logits, float largest,
                                    double temperature, double needed) {
  // Below exp(-88) weights are 0: the cutoff is above that.
  const float bottom = std::nextafter(float(largest - 88 * temperature), -infinity);
  const float least = smallest_from(logits, bottom);
  CutoffRange cutoff{
      least, std::nextafter(largest, infinity), mass_from(weights_, logits, least), {}};
  narrow(cutoff, logits, weights_, needed);
  drop_below(weights_, logits, cutoff.least);
  std::vector<TokenLogit> inside = tokens_in(cutoff, logits);
  if (!std::ranges::is_sorted(inside, more_probable)) std::ranges::sort(inside, more_probable);
  double mass = cutoff.in_above.mass;
  for (const TokenLogit& token : inside) {
    float& weight = weights_[size_t(token.token)];
    if (mass >= needed)
      weight = 0;
    else
      mass += weight;
  }
}

// The weights of the kept tokens at a temperature.
void TokenSelection::temper(std::span<const float> logits, float largest, double temperature) {
  std::vector<float> tempered(logits.size());
  fill_weights(logits, largest, temperature, tempered);
  for (size_t i = 0; i < logits.size(); ++i) weights_[i] = weights_[i] > 0 ? tempered[i] : 0.0f;
}

void TokenSelection::select(std::span<const float> logits, float largest,
                            const SamplerSettings& settings) {
  constexpr int64_t first_try = 64;  // a nucleus is rarely larger, and a list is cheaper
  const bool after = settings.temperature_order == TemperatureOrder::after_filters;
  const double temperature = settings.temperature, filter = after ? 1.0 : temperature;
  const bool cut = settings.top_p < 1;
  const bool top_k = settings.top_k > 0 && settings.top_k < int64_t(logits.size());
  list_.clear();
  weights_.resize(logits.size());
  if (!cut && !top_k) return fill_weights(logits, largest, temperature, weights_);
  list_ = largest_logits(logits, top_k ? settings.top_k : first_try);
  if (cut) {
    fill_weights(logits, largest, filter, weights_);
    const double needed = settings.top_p * mass_of(weights_);
    if (!cut_list(needed) && !top_k) {
      list_.clear();
      select_nucleus(logits, largest, filter, needed);
      if (after) temper(logits, largest, temperature);
      return;
    }
  }
  std::vector<float> kept;
  for (const TokenLogit& token : list_) kept.push_back(token.logit);
  weights_.resize(kept.size());
  fill_weights(kept, largest, temperature, weights_);
}

int32_t TokenSelection::draw(double uniform) const {
  require(uniform >= 0 && uniform < 1, "a draw takes a number in [0, 1)");
  const int32_t at = token_at_mass(weights_, uniform * mass_of(weights_));
  return list_.empty() ? at : list_[size_t(at)].token;
}

std::vector<TokenProbability> TokenSelection::probabilities() const {
  const double mass = mass_of(weights_);
  std::vector<TokenProbability> found;
  for (size_t i = 0; i < weights_.size(); ++i)
    if (weights_[i] > 0)
      found.push_back({list_.empty() ? int32_t(i) : list_[i].token, weights_[i] / mass});
  return found;
}

}  // namespace deltasane
