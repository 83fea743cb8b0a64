#include "model/rwkv7/random.h"

#include <array>
#include <cmath>

#include "base/random.h"

namespace deltasane {
namespace {

struct Spread {
  double mean, deviation;
};

// By the last part of the name.
Spread spread_of(std::string_view name, const Shape& shape) {
  const auto ends = [&](std::string_view end) { return name.ends_with(end); };
  if (ends("ln_x.weight") || ends("ln0.weight") || ends("ln1.weight") || ends("ln2.weight") ||
      ends("ln_out.weight"))
    return {1.0, 0.1};
  if (ends(".bias")) return {0.0, 0.05};
  if (ends("w0")) return {-3.0, 2.0};
  if (ends("a0")) return {-0.2, 0.5};
  if (ends("v0")) return {0.7, 0.3};
  if (ends("k_k")) return {0.7, 0.1};
  if (ends("k_a")) return {1.0, 0.1};
  if (ends("r_k")) return {-0.04, 0.1};
  if (ends("emb.weight")) return {0.0, 1.0};
  if (shape.rank() == 1) return {0.5, 0.25};  // token-shift mixes
  const bool factor = name.find(".att.") != std::string_view::npos && !ends(".weight");
  const double in = double(factor ? shape[0] : shape[1]);
  return {0.0, (ends("key.weight") ? 0.5 : 1.0) / std::sqrt(in)};
}

}  // namespace

const Rwkv7Row& RandomRwkv7::row(std::string_view name) const {
  const Rwkv7Row* found = nullptr;
  each_rwkv7_tensor(shape_, [&](const std::string& known, const Rwkv7Row& one) {
    if (known == name) found = &one;
  });
  if (!found) fail(Fault::argument, "random RWKV-7: has no tensor ", name);
  return *found;
}

std::vector<std::string> RandomRwkv7::names() const {
  std::vector<std::string> all;
  each_rwkv7_tensor(shape_, [&](const std::string& name, const Rwkv7Row&) { all.push_back(name); });
  return all;
}

bool RandomRwkv7::has(std::string_view name) const {
  bool found = false;
  each_rwkv7_tensor(
      shape_, [&](const std::string& known, const Rwkv7Row&) { found = found || known == name; });
  return found;
}

Shape RandomRwkv7::shape(std::string_view name) const { return rwkv7_shape(shape_, row(name)); }

Tensor<float> RandomRwkv7::read(std::string_view name) const {
  Tensor<float> out(shape(name));
  const Spread spread = spread_of(name, out.shape());
  Random random(seed_, stream_named(name));
  // The sum of four uniforms is near enough to normal, and the same on every machine.
  for (float& x : out.span()) {
    const uint64_t word = random.word64();
    double sum = 0;
    for (int i = 0; i < 4; ++i) sum += double((word >> (16 * i)) & 0xffff) / 65536.0 - 0.5;
    x = float(spread.mean + spread.deviation * sum * std::sqrt(3.0));
  }
  return out;
}

Rwkv7Shape released_shape(std::string_view size) {
  struct Released {
    std::string_view name;
    int64_t layers, channels, w, a, v, g;
  };
  constexpr std::array released{
      Released{"0.1B", 12, 768, 64, 64, 32, 128}, Released{"0.4B", 24, 1024, 64, 64, 32, 128},
      Released{"1.5B", 24, 2048, 96, 96, 64, 256}, Released{"2.9B", 32, 2560, 96, 96, 64, 320}};
  for (const Released& r : released)
    if (r.name == size)
      return {r.layers, r.channels, r.channels / 64, 64, 4 * r.channels, 65536, r.w, r.a, r.v, r.g};
  fail(Fault::usage, "size: expected 0.1B, 0.4B, 1.5B or 2.9B, found '", size, "'");
}

}  // namespace deltasane
