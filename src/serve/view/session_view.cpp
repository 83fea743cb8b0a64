#include "serve/view/session_view.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "base/half.h"

namespace deltasane::serve {
namespace {

constexpr double largest_float = std::numeric_limits<float>::max();
constexpr size_t histogram_bins = 20;  // of |S| / tau from 0 to 1

Json finite_or_null(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

// For a range of many magnitudes: 10^-4 and less is drawn alike.
double log10_of(double value) { return value > 1e-4 ? std::log10(value) : -4; }

template <class Of>
std::string halves(std::span<const probe::HeadStatistics> heads, Of of) {
  std::vector<double> numbers;
  for (const probe::HeadStatistics& head : heads) numbers.push_back(of(head));
  return base64_of_halves(numbers);
}

}  // namespace

std::string_view name_of(Phase phase) {
  switch (phase) {
    case Phase::reading: return "reading";
    case Phase::writing: return "writing";
    case Phase::ended: return "ended";
    case Phase::overflow: break;
  }
  return "overflow";
}

std::string base64_of(std::string_view bytes) {
  static constexpr std::string_view letters =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (size_t i = 0; i < bytes.size(); i += 3) {
    const size_t some = std::min<size_t>(3, bytes.size() - i);
    uint32_t group = 0;
    for (size_t j = 0; j < 3; ++j)
      group = group << 8 | (j < some ? static_cast<unsigned char>(bytes[i + j]) : 0u);
    for (size_t j = 0; j < 4; ++j)
      text += j <= some ? letters[group >> (18 - 6 * j) & 63] : '=';
  }
  return text;
}

std::string base64_of_halves(std::span<const double> numbers) {
  std::string bytes;
  for (const double value : numbers) {
    const uint16_t bits = f16(float(value)).bits;
    bytes += char(bits & 255), bytes += char(bits >> 8);
  }
  return base64_of(bytes);
}

Json heads_json(const StateLayout& layout, std::span<const probe::HeadStatistics> heads) {
  Json all = Json::array();
  for (size_t i = 0; i < heads.size(); ++i) {
    const StateHead& place = layout.heads()[i];
    const probe::HeadStatistics& head = heads[i];
    all.push_back({{"layer", place.layer},
                   {"head", place.head},
                   {"norm", finite_or_null(head.norm)},
                   {"largest", finite_or_null(head.largest)},
                   {"median", finite_or_null(head.median)},
                   {"q99", finite_or_null(head.q99)},
                   {"q9999", finite_or_null(head.q9999)},
                   {"above_10", head.above_10},
                   {"above_100", head.above_100}});
  }
  return all;
}

SessionView::SessionView(SessionNews first) : news_(std::move(first)) {}

void SessionView::take(SessionNews news, ThreadPool& threads) {
  if (news.losses.empty()) news.losses = std::move(news_.losses);
  const bool has_state = news.state.has_value();
  const bool is_new_text = news.position < news_.position;
  if (!has_state) {
    news.state = std::move(news_.state);
    news.taus = std::move(news_.taus);
  }
  news_ = std::move(news);
  if (!has_state) return;
  if (is_new_text) positions_.clear(), norms_.clear(), whole_.clear();
  heads_ = probe::statistics_of(*news_.state, news_.taus ? &*news_.taus : nullptr, threads);
  add_point();
  growth_.resize(heads_.size());
  for (size_t i = 0; i < heads_.size(); ++i) growth_[i] = growth_of(i);
}

// One for each state; every second is dropped when there are too many.
void SessionView::add_point() {
  if (!positions_.empty() && positions_.back() == news_.state->position) return;
  if (positions_.size() == most_points) {
    for (size_t i = 1; i < most_points / 2; ++i) {
      positions_[i] = positions_[2 * i];
      norms_[i] = std::move(norms_[2 * i]);
      whole_[i] = whole_[2 * i];
    }
    positions_.resize(most_points / 2), norms_.resize(most_points / 2), whole_.resize(most_points / 2);
  }
  positions_.push_back(news_.state->position);
  std::vector<float>& norms = norms_.emplace_back();
  for (const probe::HeadStatistics& head : heads_) norms.push_back(float(head.norm));
  whole_.push_back(probe::whole_norm(heads_));
}

probe::Growth SessionView::growth_of(size_t head) const {
  std::vector<double> norms;
  for (const std::vector<float>& point : norms_) norms.push_back(double(point[head]));
  return probe::growth_of(positions_, norms);
}

Json SessionView::row() const {
  double loss = 0;
  const size_t some = std::min<size_t>(news_.losses.size(), 256);
  for (size_t i = news_.losses.size() - some; i < news_.losses.size(); ++i) loss += news_.losses[i];
  double largest = 0, until = 0;
  size_t growing = 0;
  for (size_t i = 0; i < heads_.size(); ++i) {
    largest = std::max(largest, heads_[i].largest);
    if (growth_[i].law == probe::GrowthLaw::bounded) continue;
    ++growing;
    const double tokens = probe::tokens_until(growth_[i], largest_float);
    if (tokens > 0 && (until == 0 || tokens < until)) until = tokens;
  }
  const bool has_heads = !heads_.empty();
  return {{"id", news_.id},
          {"phase", name_of(news_.phase)},
          {"position", news_.position},
          {"sane", news_.sane},
          {"loss", some > 0 ? finite_or_null(loss / double(some)) : Json(nullptr)},
          {"norm", has_heads ? finite_or_null(probe::whole_norm(heads_)) : Json(nullptr)},
          {"largest", has_heads ? finite_or_null(largest) : Json(nullptr)},
          {"growing", growing},
          {"overflow_in", until > 0 ? finite_or_null(until) : Json(nullptr)}};
}

Json SessionView::curve_of(size_t head) const {
  Json norms = Json::array();
  for (const std::vector<float>& one : norms_) norms.push_back(finite_or_null(double(one[head])));
  const StateHead& place = news_.state->layout().heads()[head];
  const probe::Growth& growth = growth_[head];
  const double until = probe::tokens_until(growth, largest_float);
  return {{"number", head},
          {"layer", place.layer},
          {"head", place.head},
          {"norm", std::move(norms)},
          {"law", probe::name_of(growth.law)},
          {"rate", growth.rate},
          {"now", finite_or_null(growth.now)},
          {"doubling", growth.doubling > 0 ? finite_or_null(growth.doubling) : Json(nullptr)},
          {"overflow_in", until > 0 ? finite_or_null(until) : Json(nullptr)}};
}

// Of |S| / tau: SANE holds every entry below 1.
Json SessionView::histogram() const {
  if (!news_.taus) return nullptr;
  std::array<int64_t, histogram_bins> counts{};
  const std::span<const StateHead> heads = news_.state->layout().heads();
  const std::span<const float> numbers = news_.state->fixed();
  for (size_t i = 0; i < heads.size(); ++i) {
    const float tau = (*news_.taus)[i].last;
    if (!(tau > 0)) return nullptr;
    for (const float entry : numbers.subspan(size_t(heads[i].offset), size_t(heads[i].floats()))) {
      const float part = std::fabs(entry) / tau * float(histogram_bins);
      if (part >= 0) ++counts[std::min(size_t(part), histogram_bins - 1)];
    }
  }
  return counts;
}

Json SessionView::details(std::optional<int64_t> head) const {
  Json all = row();
  Json losses = Json::array();
  for (const double loss : news_.losses)  // three digits are drawn
    losses.push_back(finite_or_null(std::round(loss * 1000) / 1000));
  all["losses"] = std::move(losses);
  if (heads_.empty()) return all;
  const StateLayout& layout = news_.state->layout();
  Json widths = Json::array();
  for (int64_t layer = 0; layer < layout.layers(); ++layer)
    widths.push_back(layout.heads_of(layer).count);
  const auto largest = size_t(
      std::ranges::max_element(heads_, {}, &probe::HeadStatistics::norm) - heads_.begin());
  const size_t shown = head && *head >= 0 && *head < int64_t(heads_.size()) ? size_t(*head) : largest;
  std::vector<double> taus, rates;
  for (size_t i = 0; i < heads_.size(); ++i) {
    if (news_.taus) taus.push_back(double((*news_.taus)[i].last));
    rates.push_back(growth_[i].doubling > 0 ? log10_of(1e6 / growth_[i].doubling) : -4);
  }
  all["heads_of_layers"] = std::move(widths);
  all["log_norm"] = halves(heads_, [](const auto& one) { return log10_of(one.norm); });
  all["log_largest"] = halves(heads_, [](const auto& one) { return log10_of(one.largest); });
  all["log_growth"] = base64_of_halves(rates);  // doublings in a million tokens
  if (news_.taus) {
    all["tau"] = base64_of_halves(taus);
    all["near_identity"] = halves(heads_, [](const auto& one) { return one.near_identity; });
    all["transition"] = halves(heads_, [](const auto& one) { return one.transition; });
    all["saturated"] = halves(heads_, [](const auto& one) { return one.saturated; });
  }
  all["histogram"] = histogram();
  all["positions"] = positions_;
  Json whole = Json::array();
  for (const double norm : whole_) whole.push_back(finite_or_null(norm));
  all["norms"] = std::move(whole);
  all["shown"] = curve_of(shown);
  return all;
}

}  // namespace deltasane::serve
