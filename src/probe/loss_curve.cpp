#include "probe/loss_curve.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "probe/loss_codes.h"

namespace deltasane::probe {
namespace {

constexpr double unknown = std::numeric_limits<double>::quiet_NaN();

// The sum over the window is made again each time that the window has moved by its length, so that
// rounding does not add up over a long stream.
class LocalMean {
 public:
  // NaN until there are enough tokens.
  double add(double loss) {
    const size_t at = size_t(count_++ % local_tokens);
    sum_ += loss - last_[at];
    last_[at] = loss;
    if (at + 1 == last_.size()) {
      sum_ = 0;
      for (const double one : last_) sum_ += one;
    }
    return count_ < local_tokens ? unknown : sum_ / double(local_tokens);
  }

 private:
  std::array<double, size_t(local_tokens)> last_{};
  double sum_ = 0;
  int64_t count_ = 0;
};

}  // namespace

LossCurve loss_curve(const RecordTable& losses, int64_t stream, int64_t most) {
  const auto &streams = losses.integers("stream"), &positions = losses.integers("position");
  const std::vector<std::string>& codes = losses.bytes("losses");
  LossCurve curve;
  for (size_t row = 0; row < codes.size(); ++row)
    if (streams[row] == stream) curve.tokens += int64_t(codes[row].size());
  const int64_t stretch = std::max<int64_t>(1, (curve.tokens + most - 1) / most);
  LocalMean local;
  double total = 0, sum = 0, squares = 0;
  int64_t count = 0, known = 0;
  for (size_t row = 0; row < codes.size(); ++row) {
    if (streams[row] != stream) continue;
    int64_t position = positions[row] - int64_t(codes[row].size());
    for (const char code : codes[row]) {
      const double loss = loss_of_code(uint8_t(code)), mean = local.add(loss);
      if (count++ % stretch == 0) curve.ranges.push_back({0, loss, loss, mean, mean, 0});
      LossRange& range = curve.ranges.back();
      total += loss;
      range.position = ++position;
      range.token_low = std::min(range.token_low, loss);
      range.token_high = std::max(range.token_high, loss);
      range.local_low = std::fmin(range.local_low, mean);  // of a NaN and a number the number
      range.local_high = std::fmax(range.local_high, mean);
      range.cumulative = total / double(count);
      if (std::isnan(mean)) continue;
      const double perplexity = std::exp(mean);
      ++known, sum += perplexity, squares += perplexity * perplexity;
    }
  }
  if (known > 0) {
    curve.local_mean = sum / double(known);
    curve.local_deviation =
        std::sqrt(std::max(0.0, squares / double(known) - curve.local_mean * curve.local_mean));
  }
  return curve;
}

}  // namespace deltasane::probe
