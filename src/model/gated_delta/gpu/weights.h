// The weights of a model in a GPU's memory: matrices of Real (float or bf16), vectors of float.
// Matrices that read the same rows lie one below the other, so that one product does for them.
#pragma once

#include <deque>
#include <string>
#include <vector>

#include "model/gated_delta/checkpoint/checkpoint.h"
#include "tensor/cuda/gpu_tensor.h"

namespace deltasane::gated_delta {

template <class Real>
struct GpuLayerWeights {
  Mixer mixer = Mixer::recurrent;
  bool norms_after = false;
  const float *mixer_norm = nullptr, *ffn_norm = nullptr;
  // Recurrent: q, k, v and the gate, where that is one matrix, and below these the rows of beta,
  // decay and w_tau. Attention: q, k, v and the gate.
  const Real* in = nullptr;
  const Real *beta = nullptr, *decay = nullptr, *w_tau = nullptr;  // (head, channel)
  const Real *decay_down = nullptr, *decay_up = nullptr, *gate_down = nullptr, *gate_up = nullptr;
  const float* convolution = nullptr;  // (tap, channel)
  const float *decay_rate = nullptr, *decay_bias = nullptr, *gate_bias = nullptr,
              *output_norm = nullptr;
  const float *q_norm = nullptr, *k_norm = nullptr;
  const Real* output = nullptr;
  const Real *gate_and_up = nullptr, *down = nullptr;  // of the network: (2, F, C), (C, F)
  // Latent attention: `in` has q and the cached row; (head, L, K) and (head, V, L).
  const Real *k_up = nullptr, *v_up = nullptr;
  const float* kv_norm = nullptr;
  // Experts: (2, experts, I, C), (experts, C, I), and the shared one as a network.
  bool has_experts = false;
  const Real *router = nullptr, *experts_gate_and_up = nullptr, *experts_down = nullptr;
  const Real *shared_gate_and_up = nullptr, *shared_down = nullptr, *shared_gate = nullptr;
  const float* router_bias = nullptr;
  int64_t memory_at = 0, inputs_at = 0;  // in a state's fixed numbers
  int64_t cache = 0;                     // its number
};

template <class Real>
class GpuWeights {
 public:
  GpuWeights(const Checkpoint& checkpoint, const Config& config, const Gpu& gpu);

  const Config& config;
  const Real *embedding = nullptr, *head = nullptr;
  std::vector<GpuLayerWeights<Real>> layers;
  const float* norm = nullptr;
  const double* frequencies = nullptr;  // of rotary positions
  uint64_t bytes = 0, embedding_bytes = 0;

  // Columns of what `in` makes.
  int64_t recurrent_columns() const {
    return config.mixed_channels() + (has_gate_matrix() ? config.value_channels() : 0);
  }
  // Rows of `in` of a recurrent layer, those below included.
  int64_t recurrent_rows() const {
    const int64_t heads = config.value_heads;
    return recurrent_columns() + (config.beta_scale != 0 ? heads : 0) +
           (config.decay_rank == 0 ? config.decays() : 0) + (config.sane ? heads : 0);
  }
  int64_t attention_columns() const {
    return config.heads * config.head_size * (config.attention_gate ? 2 : 1) +
           2 * config.kv_heads * config.head_size;
  }
  int64_t latent_columns() const {
    return config.heads * (config.latent_key_size + config.shared_key_size) + config.latent_size +
           config.shared_key_size;
  }
  bool has_gate_matrix() const { return config.gate != OutputGate::none && config.gate_rank == 0; }

 private:
  GpuLayerWeights<Real> load_layer(int64_t number);
  const Real* matrix(const std::vector<std::string>& names);
  const float* vector(const std::string& name);  // null where there is none
  template <class T>
  const T* keep(std::span<const T> numbers, const std::string& name);

  const Checkpoint& checkpoint_;
  const Gpu& gpu_;
  std::deque<GpuBuffer> memory_;
};

}  // namespace deltasane::gated_delta
