#include "probe/loss_codes.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace deltasane::probe {
namespace {

constexpr int even_codes = 192, codes_per_doubling = 16;

std::array<double, 256> all_losses() {
  std::array<double, 256> losses;
  for (int code = 0; code < 256; ++code)
    losses[size_t(code)] =
        code < even_codes
            ? code * loss_step
            : even_codes * loss_step * std::exp2(double(code - even_codes) / codes_per_doubling);
  return losses;
}

const std::array<double, 256> losses_by_code = all_losses();

uint8_t nearest_code(double loss) {
  const auto above = std::ranges::lower_bound(losses_by_code, loss);
  if (above == losses_by_code.begin()) return 0;
  if (above == losses_by_code.end()) return 255;
  const bool is_lower_nearer = loss - above[-1] < *above - loss;
  return uint8_t(above - losses_by_code.begin() - (is_lower_nearer ? 1 : 0));
}

}  // namespace

double loss_of_code(uint8_t code) { return losses_by_code[code]; }

std::string loss_codes(std::span<const double> losses) {
  std::string codes;
  codes.reserve(losses.size());
  double error = 0;
  for (const double loss : losses) {
    const double wanted = std::min(loss + error, losses_by_code.back());
    const uint8_t code = nearest_code(wanted);
    error = wanted - losses_by_code[code];
    codes += char(code);
  }
  return codes;
}

}  // namespace deltasane::probe
