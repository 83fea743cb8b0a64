#include "format/k_quants/quantize_k_quant.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "base/error.h"
#include "base/half.h"

namespace deltasane {
namespace {

constexpr size_t super_block = 256;

// The nearest integer within [least, most].
int nearest(float x, int least, int most) {
  const auto low = float(least), high = float(most);
  const float inside = x < low ? low : x > high ? high : x;
  return int(inside - low + 0.5f) + least;
}

// One sub-block: its elements and what an error of each costs.
template <size_t n>
struct SubBlock {
  std::array<float, n> x, h;

  SubBlock(const float* from, const float* importance) {
    float squares = 0;
    for (size_t i = 0; i < n; ++i) x[i] = from[i], squares += x[i] * x[i];
    const float mean = std::sqrt(squares / float(n));
    for (size_t i = 0; i < n; ++i) {
      h[i] = mean + std::fabs(x[i]);
      if (importance) h[i] *= importance[i];
    }
  }
  // Of x = scale q - minimum, q in [least, most] nearest to each x.
  float error(float scale, float minimum, int least, int most) const {
    const float inverse = scale != 0 ? 1 / scale : 0.0f;
    float sum = 0;
    for (size_t i = 0; i < n; ++i) {
      const auto q = float(nearest((x[i] + minimum) * inverse, least, most));
      const float off = scale * q - minimum - x[i];
      sum += h[i] * off * off;
    }
    return sum;
  }
};

// x = scale q - minimum
struct Affine {
  float scale = 0, minimum = 0;
};

// q in [0, levels], scale and minimum not negative.
Affine fit_affine(const SubBlock<32>& block, int levels) {
  constexpr int n = 32, steps = 16;
  float least = 0, most = block.x[0], sum_h = 0, sum_x = 0, sum_xx = 0;
  for (size_t i = 0; i < n; ++i) {
    const float x = block.x[i], h = block.h[i];
    least = std::min(least, x), most = std::max(most, x);
    sum_h += h, sum_x += h * x, sum_xx += h * x * x;
  }
  const float range = most - least;
  if (!(float(levels + 1) / range <= 0x1p120f)) return {0, -least};  // all equal, or nearly so
  Affine best{range / float(levels), -least};
  float smallest = block.error(best.scale, best.minimum, 0, levels);
  for (int step = 0; step <= steps; ++step) {
    const float inverse = (float(levels) + float(2 * step - steps) / float(steps)) / range;
    float sum_q = 0, sum_qq = 0, sum_xq = 0;
    for (size_t i = 0; i < n; ++i) {
      const auto q = float(nearest((block.x[i] - least) * inverse, 0, levels));
      const float hq = block.h[i] * q;
      sum_q += hq, sum_qq += hq * q, sum_xq += hq * block.x[i];
    }
    // The least squares of these q.
    const float determinant = sum_h * sum_qq - sum_q * sum_q;
    if (!(determinant > 0)) continue;
    Affine fit{(sum_h * sum_xq - sum_x * sum_q) / determinant,
               (sum_q * sum_xq - sum_qq * sum_x) / determinant};
    if (fit.minimum < 0) fit = {sum_xq / sum_qq, 0};
    const float error = sum_xx + fit.scale * (fit.scale * sum_qq - 2 * sum_xq) +
                        fit.minimum * (fit.minimum * sum_h + 2 * sum_x - 2 * fit.scale * sum_q);
    if (fit.scale > 0 && error < smallest) smallest = error, best = fit;
  }
  return best;
}

// The scale of x = scale q, q in [-levels, levels - 1].
float fit_symmetric(const SubBlock<16>& block, int levels) {
  constexpr int steps = 16;
  float extreme = 0;
  for (const float x : block.x)
    if (std::fabs(x) > std::fabs(extreme)) extreme = x;
  if (!(std::fabs(float(levels + 1) / extreme) <= 0x1p120f)) return 0;
  float best = 0, largest = 0;
  for (int step = 0; step <= steps; ++step) {
    const float inverse = -(float(levels) + float(2 * step - steps) / float(steps)) / extreme;
    float sum_qq = 0, sum_xq = 0;
    for (size_t i = 0; i < block.x.size(); ++i) {
      const auto q = float(nearest(block.x[i] * inverse, -levels, levels - 1));
      const float hq = block.h[i] * q;
      sum_qq += hq * q, sum_xq += hq * block.x[i];
    }
    // The least squares of these q take this much off the sum of h x^2.
    if (sum_qq > 0 && sum_xq * sum_xq > largest * sum_qq)
      largest = sum_xq * sum_xq / sum_qq, best = sum_xq / sum_qq;
  }
  return best;
}

// Stores as f16; returns what was stored.
float put_half(std::byte* to, float value) {
  const f16 rounded(value);
  std::memcpy(to, &rounded.bits, sizeof rounded.bits);
  return float(rounded);
}

template <class T>
void set_bits(std::byte& to, T bits, size_t shift) {
  to |= std::byte(uint8_t(uint32_t(bits) << shift));
}

struct Rounded {
  int scale = 0, minimum = 0;
};

// The neighbours of scale / d and minimum / d_min with the smallest error.
template <size_t n>
Rounded round_scales(const SubBlock<n>& block, const Affine& fit, float d, float d_min,
                     std::array<int, 2> scales, std::array<int, 2> levels) {
  const int scale = d != 0 ? nearest(fit.scale / d, scales[0], scales[1]) : 0;
  const int minimum = d_min != 0 ? nearest(fit.minimum / d_min, 0, scales[1]) : 0;
  const int lower = d_min != 0 ? std::max(minimum - 1, 0) : 0;
  const int upper = d_min != 0 ? std::min(minimum + 1, scales[1]) : 0;
  Rounded best{scale, minimum};
  float smallest = block.error(d * float(scale), d_min * float(minimum), levels[0], levels[1]);
  for (int s = std::max(scale - 1, scales[0]); s <= std::min(scale + 1, scales[1]); ++s)
    for (int m = lower; m <= upper; ++m) {
      const float error = block.error(d * float(s), d_min * float(m), levels[0], levels[1]);
      if (error < smallest) smallest = error, best = {s, m};
    }
  return best;
}

// q4_k and q5_k: d, d_min, 12 bytes of scales and minimums, 32 bytes of fifth bits for q5_k, 128
// bytes of four bits each.
void put_affine(const float* x, const float* importance, int bits, std::byte* out) {
  constexpr size_t size = 32, count = super_block / size;
  const int levels = (1 << bits) - 1;
  std::array<Affine, count> fits;
  float most_scale = 0, most_minimum = 0;
  for (size_t j = 0; j < count; ++j) {
    const SubBlock<size> block(x + j * size, importance ? importance + j * size : nullptr);
    fits[j] = fit_affine(block, levels);
    most_scale = std::max(most_scale, fits[j].scale);
    most_minimum = std::max(most_minimum, fits[j].minimum);
  }
  const float d = put_half(out, most_scale / 63), d_min = put_half(out + 2, most_minimum / 63);
  std::byte* const scales = out + 4;
  std::byte* const fifth = out + 16;
  std::byte* const nibbles = fifth + (bits == 5 ? 32 : 0);
  for (size_t j = 0; j < count; ++j) {
    const SubBlock<size> block(x + j * size, importance ? importance + j * size : nullptr);
    const auto [s, m] = round_scales(block, fits[j], d, d_min, {0, 63}, {0, levels});
    if (j < 4) {
      set_bits(scales[j], s, 0), set_bits(scales[4 + j], m, 0);
    } else {
      set_bits(scales[8 + j - 4], s & 15, 0), set_bits(scales[8 + j - 4], m & 15, 4);
      set_bits(scales[j - 4], s >> 4, 6), set_bits(scales[j], m >> 4, 6);
    }
    const float scale = d * float(s), minimum = d_min * float(m);
    const float inverse = scale != 0 ? 1 / scale : 0.0f;
    for (size_t i = 0; i < size; ++i) {
      const int q = nearest((block.x[i] + minimum) * inverse, 0, levels);
      set_bits(nibbles[j / 2 * size + i], q & 15, j % 2 * 4);
      if (bits == 5) set_bits(fifth[i], q >> 4, j);
    }
  }
}

// 128 bytes of low four bits, 64 of high two bits, 16 scales, d.
void put_q6_k(const float* x, const float* importance, std::byte* out) {
  constexpr size_t size = 16, count = super_block / size;
  std::array<float, count> fits;
  float extreme = 0;
  for (size_t j = 0; j < count; ++j) {
    fits[j] = fit_symmetric(
        SubBlock<size>(x + j * size, importance ? importance + j * size : nullptr), 32);
    if (std::fabs(fits[j]) > std::fabs(extreme)) extreme = fits[j];
  }
  const float d = put_half(out + 208, extreme / -128);
  for (size_t j = 0; j < count; ++j) {
    const SubBlock<size> block(x + j * size, importance ? importance + j * size : nullptr);
    const int s = round_scales(block, {fits[j], 0}, d, 0, {-128, 127}, {-32, 31}).scale;
    out[192 + j] = std::byte(uint8_t(s));
    const float scale = d * float(s), inverse = scale != 0 ? 1 / scale : 0.0f;
    for (size_t k = 0; k < size; ++k) {
      const size_t i = j * size + k;
      const int q = nearest(block.x[k] * inverse, -32, 31) + 32;
      set_bits(out[i / 128 * 64 + i % 64], q & 15, i % 128 / 64 * 4);
      set_bits(out[128 + i / 128 * 32 + i % 32], q >> 4, i % 128 / 32 * 2);
    }
  }
}

}  // namespace

void quantize_k_quant(StoredType type, std::span<const float> in, std::span<const float> importance,
                      std::byte* out, std::string_view what) {
  // The largest element that a super-block's scales can hold with some room.
  constexpr float limit = 0x1p21f;
  require(importance.empty() || importance.size() == in.size(),
          "every element has its importance, or none has");
  for (size_t i = 0; i < in.size(); ++i)
    if (!(std::fabs(in[i]) <= limit))
      fail(Fault::overflow, what, ": element ", i, ": expected a number of at most ", limit, " for ",
           name_of(type), ", found ", in[i]);
  const auto bytes = size_t(layout_of(type).bytes);
  std::memset(out, 0, in.size() / super_block * bytes);
  for (size_t at = 0; at < in.size(); at += super_block, out += bytes) {
    const float* const weights = importance.empty() ? nullptr : importance.data() + at;
    switch (type) {
      case StoredType::q4_k:
        put_affine(in.data() + at, weights, 4, out);
        break;
      case StoredType::q5_k:
        put_affine(in.data() + at, weights, 5, out);
        break;
      case StoredType::q6_k:
        put_q6_k(in.data() + at, weights, out);
        break;
      default:
        require(false, "quantize_k_quant gets a type of its own");
    }
  }
}

}  // namespace deltasane
