#include "model/gated_delta/gpu/weights.h"

#include <cmath>
#include <utility>

#include "model/gated_delta/checkpoint/tensor_table.h"

namespace deltasane::gated_delta {

template <class Real>
GpuWeights<Real>::GpuWeights(const Checkpoint& checkpoint, const Config& of,
                             const Gpu& gpu)
    : config(of), checkpoint_(checkpoint), gpu_(gpu) {
  embedding = matrix({"embedding.weight"});
  embedding_bytes = bytes;
  for (int64_t i = 0; i < config.layers(); ++i) {
    layers.push_back(load_layer(i));
    checkpoint_.file().drop_pages();
  }
  norm = vector("norm.weight");
  head = config.tied ? embedding : matrix({"head.weight"});
  if (config.tied) embedding_bytes = 0;  // a token's head reads all of it
  std::vector<double> turns;
  for (int64_t i = 0; i < config.rotary / 2; ++i)
    turns.push_back(std::pow(config.theta, -2.0 * double(i) / double(config.rotary)));
  if (!turns.empty()) frequencies = keep<double>(turns, "rotary positions");
}

template <class Real>
template <class T>
const T* GpuWeights<Real>::keep(std::span<const T> numbers, const std::string& name) {
  memory_.emplace_back(gpu_, numbers.size_bytes(),
                       cat(sizeof(Real) == 4 ? "float weights (bf16 weights need half)"
                                             : "weights (the device cpu needs none)",
                           ", at ", name));
  copy_to_gpu(memory_.back().data(), numbers.data(), numbers.size_bytes(), gpu_);
  gpu_.wait();
  bytes += numbers.size_bytes();
  return reinterpret_cast<const T*>(memory_.back().data());
}

// One below the other; names that the model does not have are left out.
template <class Real>
const Real* GpuWeights<Real>::matrix(const std::vector<std::string>& names) {
  std::vector<Real> all;
  for (const std::string& name : names)
    if (checkpoint_.has(name)) {
      const Tensor<float> one = checkpoint_.read(name);
      all.reserve(all.size() + size_t(one.elements()));
      const bool turned = name.ends_with("w_tau");  // it is (channel, head)
      const int64_t rows = turned ? one.shape()[1] : 1, length = one.elements() / rows;
      for (int64_t i = 0; i < rows; ++i)
        for (int64_t j = 0; j < length; ++j) all.push_back(Real(one[turned ? j * rows + i : j]));
    }
  return all.empty() ? nullptr : keep<Real>(all, names[0]);
}

template <class Real>
const float* GpuWeights<Real>::vector(const std::string& name) {
  return checkpoint_.has(name) ? keep<float>(checkpoint_.read(name).span(), name) : nullptr;
}

template <class Real>
GpuLayerWeights<Real> GpuWeights<Real>::load_layer(int64_t number) {
  const auto name = [&](std::string_view part) { return layer_tensor(number, part); };
  const auto one = [&](std::string_view part) { return matrix({name(part)}); };
  GpuLayerWeights<Real> w;
  w.mixer = config.mixers[size_t(number)];
  w.norms_after = config.norms_after && w.mixer == Mixer::attention;
  w.mixer_norm =
      vector(name(w.norms_after ? "mixer_output_norm.weight" : "mixer_norm.weight"));
  w.ffn_norm = vector(name(w.norms_after ? "ffn_output_norm.weight" : "ffn_norm.weight"));
  w.output = one("mixer.output.weight");
  w.gate_and_up = matrix({name("ffn.gate.weight"), name("ffn.up.weight")});
  w.down = one("ffn.down.weight");
  w.has_experts = config.experts[size_t(number)];
  w.router = one("ffn.router.weight"), w.router_bias = vector(name("ffn.router_bias"));
  w.experts_gate_and_up =
      matrix({name("ffn.experts.gate.weight"), name("ffn.experts.up.weight")});
  w.experts_down = one("ffn.experts.down.weight");
  w.shared_gate_and_up = matrix({name("ffn.shared.gate.weight"), name("ffn.shared.up.weight")});
  w.shared_down = one("ffn.shared.down.weight");
  w.shared_gate = one("ffn.shared_gate.weight");
  const StateLayout layout = checkpoint_.state_layout();
  for (const StatePart& part : layout.parts()) {
    if (part.layer != number) continue;
    if (part.kind == StateKind::memory) w.memory_at = part.offset;
    if (part.kind == StateKind::convolution) w.inputs_at = part.offset;
    if (part.kind == StateKind::cache) w.cache = part.offset;
  }
  if (w.mixer == Mixer::attention) {
    w.in = matrix({name("mixer.q.weight"), name("mixer.k.weight"), name("mixer.v.weight"),
                   name("mixer.gate.weight")});
    w.q_norm = vector(name("mixer.q_norm.weight")), w.k_norm = vector(name("mixer.k_norm.weight"));
    return w;
  }
  if (w.mixer == Mixer::latent) {
    w.in = matrix({name("mixer.q.weight"), name("mixer.kv_down.weight")});
    w.kv_norm = vector(name("mixer.kv_norm.weight"));
    w.k_up = one("mixer.k_up.weight"), w.v_up = one("mixer.v_up.weight");
    return w;
  }
  // One below the other, as the header says.
  w.in = matrix({name("mixer.qkv.weight"), name("mixer.gate.weight"), name("mixer.beta.weight"),
                 name("mixer.decay.weight"), name("mixer.w_tau")});
  int64_t row = recurrent_columns();
  const auto rows_of = [&](std::string_view part, int64_t rows) -> const Real* {
    if (!checkpoint_.has(name(part))) return nullptr;
    return w.in + std::exchange(row, row + rows) * config.channels;
  };
  w.beta = rows_of("mixer.beta.weight", config.value_heads);
  w.decay = rows_of("mixer.decay.weight", config.decays());
  w.w_tau = rows_of("mixer.w_tau", config.value_heads);
  w.decay_down = one("mixer.decay_down.weight"), w.decay_up = one("mixer.decay_up.weight");
  w.gate_down = one("mixer.gate_down.weight"), w.gate_up = one("mixer.gate_up.weight");
  w.decay_bias = vector(name("mixer.decay_bias"));
  if (const std::string log_rate = name("mixer.decay_log_rate"); checkpoint_.has(log_rate)) {
    Tensor<float> rate = checkpoint_.read(log_rate);
    for (float& value : rate.span()) value = std::exp(value);
    w.decay_rate = keep<float>(rate.span(), log_rate);
  }
  w.gate_bias = vector(name("mixer.gate_bias"));
  w.output_norm = vector(name("mixer.output_norm.weight"));
  const int64_t taps = std::max<int64_t>(1, config.taps), channels = config.mixed_channels();
  std::vector<float> convolution(size_t(taps * channels), 1);
  if (config.taps > 0) {
    const Tensor<float> stored = checkpoint_.read(name("mixer.convolution.weight"));
    for (int64_t i = 0; i < stored.elements(); ++i)  // (channel, tap)
      convolution[size_t(i % taps * channels + i / taps)] = stored[i];
  }
  w.convolution = keep<float>(convolution, name("mixer.convolution.weight"));
  return w;
}

template class GpuWeights<float>;
template class GpuWeights<bf16>;

}  // namespace deltasane::gated_delta
