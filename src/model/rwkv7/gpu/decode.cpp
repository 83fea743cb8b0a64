#include "model/rwkv7/gpu/decode.h"

#include <algorithm>
#include <cstring>

namespace deltasane {

using namespace kernel::cuda;
using namespace rwkv7;

template <class Real>
GpuDecoder<Real>::GpuDecoder(std::shared_ptr<const Gpu> gpu, const Rwkv7GpuWeights<Real>& weights,
                             const GpuSane& sane, int64_t vocabulary)
    : gpu_(std::move(gpu)),
      weights_(weights),
      eps_{weights.norms.layer_eps, weights.norms.group_eps},
      vocabulary_(vocabulary),
      inputs_(*gpu_, sizeof(DecodeInputs), "single tokens"),
      inputs_here_(sizeof(DecodeInputs)),
      logits_here_(uint64_t(max_small_batch * vocabulary) * sizeof(float)) {
  const LayerSizes& s = weights.sizes;
  for (GpuTensor<float>* t : {&x_, &u_, &tau_, &v_first_, &y_})
    *t = GpuTensor<float>(*gpu_, {max_small_batch, s.channels}, "single tokens");
  in_ = GpuTensor<float>(*gpu_, {max_small_batch, s.rows_of_in(false)}, "single tokens");
  hidden_ = GpuTensor<float>(*gpu_, {max_small_batch, s.feed_forward}, "single tokens");
  logits_ = GpuTensor<float>(*gpu_, {max_small_batch, vocabulary}, "single tokens");
  if (sane.kind == SaneKind::trained) sane_.kind = DecodeSane::Kind::trained;
  if (sane.kind == SaneKind::run_time) sane_.kind = DecodeSane::Kind::constant;
  sane_.alpha = float(sane.alpha), sane_.constant = sane.constant, sane_.chunk = sane.chunk;
  static_assert(max_small_batch == most_tokens);
  for (int count = 1; count <= most_tokens; ++count)
    one_kernel(size_t(count)).room = token_shared_memory<Real>(s, count, *gpu_);
  if (!one_kernel(1).room) return;
  layers_ = GpuTensor<LayerWeights<Real>>(*gpu_, {s.layers}, "single tokens");
  layers_.upload(weights.layers, *gpu_);
}

template <class Real>
bool GpuDecoder<Real>::takes(size_t sequences) const {
  if (!weights_.has_fused_norms() || weights_.are_quantized() ||
      sequences > size_t(max_small_batch))
    return false;
  return one_kernel_[sequences - 1].room || !one_kernel_[0].room;
}

template <class Real>
void GpuDecoder<Real>::ask_one_kernel(std::span<const SingleToken> sequences, float* logits) {
  OneKernel& kernel = one_kernel(sequences.size());
  if (!kernel.steps) {
    const int64_t numbers = exchanged_numbers(weights_.sizes, int(sequences.size()));
    kernel.exchanged = GpuTensor<float>(*gpu_, {numbers}, "single tokens");
    kernel.exchanged.zero(*gpu_);
  }
  NextTokens next{};
  next.count = int(sequences.size()), next.before = kernel.steps++;
  for (size_t i = 0; i < sequences.size(); ++i) {
    next.token[i] = sequences[i].token, next.position[i] = sequences[i].position;
    next.state[i] = sequences[i].state;
  }
  decode_tokens<Real>(
      {layers_.data(), weights_.embedding, weights_.ln0_weight, weights_.ln0_bias,
       weights_.ln_out_weight, weights_.ln_out_bias, weights_.head.rows, vocabulary_, eps_},
      weights_.sizes, *kernel.room, sane_, next, kernel.exchanged.data(), logits, *gpu_);
}

template <class Real>
void GpuDecoder<Real>::ask_few(int64_t sequences) {
  const LayerSizes& s = weights_.sizes;
  const auto* const inputs = reinterpret_cast<const DecodeInputs*>(inputs_.data());
  copy_to_gpu(inputs_.data(), inputs_here_.as<DecodeInputs>(), sizeof(DecodeInputs), *gpu_);
  embed(RowBlock{sequences, 1, s.channels}, inputs->token, weights_.embedding, weights_.ln0_weight,
        weights_.ln0_bias, eps_.layer, x_.data(), *gpu_);
  const DecodeActivations activations{x_.data(),       u_.data(), tau_.data(),   in_.data(),
                                      v_first_.data(), y_.data(), hidden_.data()};
  for (int64_t layer = 0; layer < s.layers; ++layer)
    decode_layer(weights_.layers[size_t(layer)], s, eps_, layer, sequences, sane_, inputs,
                 activations, *gpu_);
  decode_logits(weights_.head.rows, weights_.ln_out_weight, weights_.ln_out_bias, eps_.layer,
                vocabulary_, s.channels, sequences, x_.data(), logits_.data(), *gpu_);
}

template <class Real>
float* GpuDecoder<Real>::ask(std::span<const SingleToken> sequences) {
  const auto count = int64_t(sequences.size());
  require(count >= 1 && count <= max_small_batch, "a few sequences are 1 to 8");
  if (one_kernel(sequences.size()).room) {
    ask_one_kernel(sequences, logits_.data());
    return logits_.data();
  }
  auto& inputs = *inputs_here_.as<DecodeInputs>();
  for (size_t i = 0; i < sequences.size(); ++i) {
    inputs.token[i] = sequences[i].token;
    inputs.position[i] = sequences[i].position;
    inputs.state[i] = sequences[i].state;
  }
  GpuGraph& recorded = recorded_[size_t(count) - 1];
  if (!recorded) {
    ask_few(count);  // once as it is: kernels are loaded when they are first used
    recorded = GpuGraph(*gpu_, [this, count] { ask_few(count); });
  } else {
    recorded.run(*gpu_);
  }
  return logits_.data();
}

template <class Real>
void GpuDecoder<Real>::step(std::span<const SingleToken> sequences, float* logits) {
  const uint64_t bytes = uint64_t(sequences.size()) * uint64_t(vocabulary_) * sizeof(float);
  float* const here = logits && !is_pinned(logits) ? logits_here_.as<float>() : logits;
  if (one_kernel(sequences.size()).room && logits) {  // the kernel itself writes there
    ask_one_kernel(sequences, here);
  } else {
    ask(sequences);
    if (logits) copy_to_host(here, logits_.data(), bytes, *gpu_);
  }
  gpu_->wait();
  if (here != logits) std::memcpy(logits, here, bytes);
}

template class GpuDecoder<float>;
template class GpuDecoder<bf16>;

}  // namespace deltasane
