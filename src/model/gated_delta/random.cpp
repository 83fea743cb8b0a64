#include "model/gated_delta/random.h"

#include <cmath>

#include "base/random.h"
#include "format/tokenizer/gguf_tokenizer_write.h"
#include "format/tokenizer/tokenizer_json_write.h"
#include "model/gated_delta/checkpoint/checkpoint.h"
#include "model/gated_delta/checkpoint/tensor_table.h"

namespace deltasane::gated_delta {
namespace {

struct QwenSizes {
  std::string_view name;
  int64_t layers, channels, feed_forward, heads, kv_heads, value_heads;
  bool tied;
};
constexpr QwenSizes qwen[] = {{"Qwen3.5-0.8B", 24, 1024, 3584, 8, 2, 16, true},
                              {"Qwen3.5-2B", 24, 2048, 6144, 8, 2, 16, true},
                              {"Qwen3.5-4B", 32, 2560, 9216, 16, 4, 32, true},
                              {"Qwen3.5-9B", 32, 4096, 12288, 16, 4, 32, false}};

struct PureSizes {
  std::string_view name;
  int64_t layers, channels, feed_forward, heads;
};
constexpr PureSizes pure[] = {{"GatedDeltaNet-0.4B", 21, 1024, 2816, 4},
                              {"GatedDeltaNet-1.3B", 24, 2048, 5632, 8}};

Config qwen_config(const QwenSizes& sizes) {
  Config c;
  c.model_type = "qwen3_5";
  c.vocabulary = 248320, c.channels = sizes.channels, c.norm_eps = c.output_norm_eps = 1e-6;
  c.tied = sizes.tied;
  for (int64_t i = 0; i < sizes.layers; ++i)
    c.mixers.push_back((i + 1) % 4 == 0 ? Mixer::attention : Mixer::recurrent);
  c.key_heads = 16, c.value_heads = sizes.value_heads, c.key_size = c.value_size = 128, c.taps = 4;
  c.gate = OutputGate::silu;
  c.heads = sizes.heads, c.kv_heads = sizes.kv_heads, c.head_size = 256, c.rotary = 64;
  c.theta = 1e7, c.attention_gate = true, c.qk_norm = QkNorm::head;
  c.feed_forward = sizes.feed_forward;
  return c;
}

Config pure_config(const PureSizes& sizes) {
  Config c;
  c.model_type = "gated_deltanet";
  c.vocabulary = 32000, c.channels = sizes.channels, c.norm_eps = c.output_norm_eps = 1e-6;
  c.mixers.assign(size_t(sizes.layers), Mixer::recurrent);
  c.key_heads = c.value_heads = sizes.heads, c.key_size = c.value_size = 256, c.taps = 4;
  c.gate = OutputGate::silu;
  c.feed_forward = sizes.feed_forward;
  return c;
}

}  // namespace

std::vector<std::string> RandomTensors::names() const {
  std::vector<std::string> all;
  each_tensor(config_,
              [&](const std::string& name, const Shape&, TensorForm) { all.push_back(name); });
  return all;
}

bool RandomTensors::has(std::string_view name) const {
  bool found = false;
  each_tensor(config_, [&](const std::string& one, const Shape&, TensorForm) {
    found = found || one == name;
  });
  return found;
}

Shape RandomTensors::shape(std::string_view name) const {
  std::optional<Shape> found;
  each_tensor(config_, [&](const std::string& one, const Shape& of_one, TensorForm) {
    if (one == name) found = of_one;
  });
  if (!found) fail(Fault::argument, "random model: has no tensor ", name);
  return *found;
}

Tensor<float> RandomTensors::read(std::string_view name) const {
  Tensor<float> out(shape(name));
  const auto ends = [&](std::string_view end) { return name.ends_with(end); };
  const Shape& shape = out.shape();
  const bool is_norm = ends("norm.weight"), is_rate = ends("decay_log_rate");
  double deviation = shape.rank() == 1 ? 0.5 : 1 / std::sqrt(double(shape[shape.rank() - 1]));
  if (is_norm) deviation = 0.25;
  if (is_rate) deviation = 1.5;
  if (ends("convolution.weight")) deviation = 0.5;
  if (ends("w_tau")) deviation = 1 / std::sqrt(double(shape[0]));
  if (ends("embedding.weight")) deviation = 1;
  Random random(seed_, stream_named(name));
  // The sum of four uniforms is near enough to normal, and the same on every machine.
  for (float& x : out.span()) {
    const uint64_t word = random.word64();
    double sum = 0;
    for (int i = 0; i < 4; ++i) sum += double((word >> (16 * i)) & 0xffff) / 65536.0 - 0.5;
    const double value = deviation * sum * std::sqrt(3.0);
    x = float(is_norm ? 1 + value : value);
  }
  return out;
}

Config released_config(std::string_view name) {
  std::string known;
  const auto add = [&](std::string_view one) { known += cat(known.empty() ? "" : ", ", one); };
  const auto finished = [](Config c) {
    c.experts.assign(c.mixers.size(), false);
    return c;
  };
  for (const QwenSizes& one : qwen) {
    if (one.name == name) return finished(qwen_config(one));
    add(one.name);
  }
  for (const PureSizes& one : pure) {
    if (one.name == name) return finished(pure_config(one));
    add(one.name);
  }
  fail(Fault::usage, "size: expected ", known, ", found '", name, "'");
}

void write_random(const Config& config, uint64_t seed, const fs::path& path,
                  const MatrixTypes& types) {
  const RandomTensors source(config, seed);
  const BpeDefinition tokenizer = byte_level_bpe();
  if (path.extension() == ".gguf") {
    GgufRequest request{types};
    request.tokenizer = gguf_bpe_tokenizer(tokenizer, config.vocabulary, path.string());
    write_gguf(path, config, source, nullptr, request);
  } else if (path.extension() == ".safetensors") {
    write(path, config, source, types.most, {});
  } else if (!path.has_filename()) {
    fs::create_directories(path);
    write_hugging_face(path, config, source, types.most, tokenizer.end_of_document);
    replace_file(path / "tokenizer.json", tokenizer_json_of(tokenizer));
  } else {
    fail(Fault::usage, path, ": expected a name that ends in .safetensors, .gguf or /");
  }
}

}  // namespace deltasane::gated_delta
