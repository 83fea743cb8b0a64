#include "model/rwkv7/train/initialise.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "base/random.h"
#include "model/rwkv7/train/layout.h"

namespace deltasane::rwkv7 {
namespace {

double dot(const double* a, const double* b, size_t n) {
  double lanes[8] = {};
  size_t i = 0;
  for (; i + 8 <= n; i += 8)
    for (size_t lane = 0; lane < 8; ++lane) lanes[lane] += a[i + lane] * b[i + lane];
  for (; i < n; ++i) lanes[0] += a[i] * b[i];
  double sum = 0;
  for (const double lane : lanes) sum += lane;
  return sum;
}

// The Q of a random normal matrix's QR, with a positive diagonal in R: Gram-Schmidt on the shorter
// side's vectors. Those behind the current one are brought up to date on all threads.
void fill_orthogonal(std::span<float> out, int64_t rows, int64_t columns, double gain,
                     Random random, const kernel::Cpu& cpu) {
  const size_t count = size_t(std::min(rows, columns)), length = size_t(std::max(rows, columns));
  std::vector<std::vector<double>> q(count, std::vector<double>(length));
  for (auto& vector : q)
    for (double& x : vector) x = random.normal();
  for (size_t i = 0; i < count; ++i) {
    const double inverse = 1 / std::sqrt(dot(q[i].data(), q[i].data(), length));
    for (double& x : q[i]) x *= inverse;
    const size_t behind = count - i - 1, together = 8;
    cpu.threads.parallel(int64_t((behind + together - 1) / together), [&](int64_t piece) {
      const size_t end = std::min(count, i + 1 + (size_t(piece) + 1) * together);
      for (size_t j = i + 1 + size_t(piece) * together; j < end; ++j) {
        const double share = dot(q[i].data(), q[j].data(), length);
        for (size_t k = 0; k < length; ++k) q[j][k] -= share * q[i][k];
      }
    });
  }
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < columns; ++c)
      out[size_t(r * columns + c)] =
          float(gain * (rows < columns ? q[size_t(r)][size_t(c)] : q[size_t(c)][size_t(r)]));
}

void fill_normal(std::span<float> out, int64_t rows, int64_t columns, double gain,
                 const Random& random, const kernel::Cpu& cpu) {
  constexpr uint64_t words_of_a_number = 4;
  const double deviation = gain / std::sqrt(double(std::max(rows, columns)));
  cpu.threads.parallel(rows, [&](int64_t row) {
    Random own(random.seed(), random.stream(), uint64_t(row * columns) * words_of_a_number);
    for (float& x : out.subspan(size_t(row * columns), size_t(columns)))
      x = float(deviation * own.normal());
  });
}

struct ElementContext {
  const Rwkv7Shape& shape;
  int64_t layer;
  double ratio_from_zero() const {
    return shape.layers > 1 ? double(layer) / double(shape.layers - 1) : 0;
  }
  double ratio_to_end() const { return 1 - double(layer) / double(shape.layers); }
  double share(int64_t i) const { return double(i) / double(shape.channels); }
  double ramp(int64_t i) const {  // 0 .. 1
    return shape.channels > 1 ? double(i) / double(shape.channels - 1) : 0;
  }
  double zigzag(int64_t i) const {  // within a head, -1 .. 1
    if (shape.head_size < 2) return 0;
    const double half = double(shape.head_size - 1) / 2;
    const double q = (double(i % shape.head_size) - half) / half;
    return q * std::abs(q);
  }
};

// Element i of a vector in a block; `part` is the name behind "blocks.N.".
double vector_element(std::string_view part, int64_t i, const ElementContext& e,
                      const Initialisation& settings) {
  const auto mix = [&](double power) { return 1 - std::pow(e.share(i), power); };
  if (part == "att.x_r" || part == "att.x_g") return mix(0.2 * e.ratio_to_end());
  if (part == "att.x_w" || part == "att.x_a") return mix(0.9 * e.ratio_to_end());
  if (part == "att.x_k" || part == "att.x_v") return mix(0.7 * e.ratio_to_end());
  if (part == "ffn.x_k") return mix(std::pow(e.ratio_to_end(), 4));
  if (part == "att.w0")
    return -6 + 6 * std::pow(e.ramp(i), 1 + std::pow(e.ratio_from_zero(), 0.3)) + 0.5 +
           2.5 * e.zigzag(i) + settings.decay_bias_shift;
  if (part == "att.a0")
    return -0.19 + 0.3 * e.zigzag(i) + 0.4 * (e.ramp(i) - 0.5) + settings.rate_bias_shift;
  if (part == "att.v0") return 0.73 - 0.4 * (e.ramp(i) - 0.5);
  if (part == "att.k_k") return 0.71 - 0.1 * (e.ramp(i) - 0.5);
  if (part == "att.k_a") return 1.02;
  if (part == "att.r_k") return -0.04;
  if (part == "att.ln_x.weight") return std::pow(double(e.layer + 1) / double(e.shape.layers), 0.7);
  if (part.ends_with(".weight")) return 1;  // norms
  return 0;                                 // their biases, x_tau
}

// How a matrix begins: 0, or orthogonal with a gain.
double matrix_gain(std::string_view part, const Shape& shape) {
  const double taller = std::sqrt(std::max(1.0, double(shape[0]) / double(shape[1])));
  if (part == "head.weight") return 0.5 * taller;
  if (part == "att.receptance.weight" || part == "att.value.weight" || part == "ffn.key.weight")
    return 1;
  if (part == "att.key.weight") return 0.1;
  if (part == "att.w2" || part == "att.a2" || part == "att.v2" || part == "att.g2")
    return 0.1 * taller;
  return 0;
}

}  // namespace

Parameters initialised(const Rwkv7Shape& shape, const std::optional<SaneSettings>& sane,
                       const Initialisation& settings, const kernel::Cpu& cpu) {
  Parameters model(parameter_layout(shape), sane);
  for (const ParameterSlot& slot : model.layout().slots()) {
    const std::span<float> out = model.of(slot.name);
    Random random(settings.seed, stream_named(slot.name));
    std::string_view part = slot.name;
    int64_t layer = 0;
    if (part.starts_with("blocks.")) {
      part.remove_prefix(7);
      layer = std::stoll(std::string(part));
      part.remove_prefix(part.find('.') + 1);
    }
    if (part == "emb.weight") {
      for (float& x : out) x = float(random.uniform(-1e-4, 1e-4));
    } else if (slot.shape.rank() == 2 && part != "att.r_k") {
      const double gain = matrix_gain(part, slot.shape);
      if (settings.matrices == InitialMatrices::normal)
        fill_normal(out, slot.shape[0], slot.shape[1], std::max(gain, 0.1), random, cpu);
      else if (gain > 0)
        fill_orthogonal(out, slot.shape[0], slot.shape[1], gain, random, cpu);
    } else {
      const ElementContext context{shape, layer};
      for (size_t i = 0; i < out.size(); ++i)
        out[i] = float(vector_element(part, int64_t(i), context, settings));
    }
  }
  return model;
}

Rwkv7Shape shape_for(const ModelSizes& sizes) {
  const auto& [layers, channels, head_size, vocabulary, kind, beta_scale] = sizes;
  expect_no_beta_scale(sizes);
  if (!kind.empty())
    fail(Fault::usage, "kind: expected none for this architecture, found '", kind, "'");
  if (layers < 1 || channels < 1 || head_size < 1 || vocabulary < 2 || channels % head_size != 0)
    fail(Fault::usage, "model: expected layers, channels in whole heads and a vocabulary, found ",
         layers, " layers, ", channels, " channels in heads of ", head_size, ", vocabulary ",
         vocabulary);
  const auto rank = [](double x) {  // rounds half to even, as the official code does
    return std::max<int64_t>(32, 32 * int64_t(std::nearbyint(x / 32)));
  };
  const double root = std::sqrt(double(channels));
  return {.layers = layers,
          .channels = channels,
          .heads = channels / head_size,
          .head_size = head_size,
          .feed_forward = 4 * channels,
          .vocabulary = vocabulary,
          .rank_w = rank(2.5 * root),
          .rank_a = rank(2.5 * root),
          .rank_v = layers > 1 ? rank(1.7 * root) : 0,
          .rank_g = rank(5 * root)};
}

}  // namespace deltasane::rwkv7
