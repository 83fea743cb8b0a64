// A layer for one token of each of up to two sequences, as a few kernels that begin to load their
// weights before the one in front of them has ended; the order of block.h, written again for speed.
// For executor.cpp only.
//
//     1  norm, and one product with all that reads it
//     2  recurrent: convolution, norms, decay and the step of the state; attention: as in a block
//     3  gated norm, or the attention's gate, and the output matrix, added to x
//     4  norm, gate and up matrices, and swiglu of both
//     5  down matrix, added to x
#pragma once

#include <algorithm>

#include "kernel/delta_rule/token_cuda/convolved_token.h"
#include "model/gated_delta/gpu/executor_block.h"

namespace deltasane::gated_delta {

template <class Real>
class GpuExecutor<Real>::FewTokens {
 public:
  FewTokens(GpuExecutor& executor, int64_t index)
      : e(executor), c(executor.c), w(executor.weights_.layers[size_t(index)]), index_(index) {}

  // Whether a model's layers are of these kinds and sizes.
  static bool takes(const GpuWeights<Real>& weights) {
    const Config& c = weights.config;
    const auto fits = [](int64_t columns) {
      return kernel::cuda::has_few_rows_product<Real>(columns);
    };
    const auto in_fours = [](int64_t one, int64_t other) { return one % 4 == 0 && other % 4 == 0; };
    return !c.norms_after && !c.has(Mixer::latent) && std::ranges::count(c.experts, true) == 0 &&
           fits(c.channels) && fits(c.feed_forward) &&
           (!c.has(Mixer::attention) ||
            (fits(c.heads * c.head_size) && in_fours(c.head_size, weights.attention_columns()))) &&
           (!c.has(Mixer::recurrent) ||
            (c.rule != kernel::Rule::kda && c.gate_rank == 0 && c.value_size % 4 == 0 &&
             fits(c.value_channels()) &&
             in_fours(c.mixed_channels(), weights.recurrent_rows())));
  }
  // More take longer than in a block.
  static constexpr int64_t most_sequences = kernel::cuda::most_rows_of_few;
  // Columns of what the first and the fourth kernel make.
  static int64_t columns(const GpuWeights<Real>& weights) {
    return std::max(weights.recurrent_rows(), weights.config.feed_forward);
  }

  void run() {
    Product down = added(w.down, c.feed_forward);
    down.input = {.x = e.few_in_, .step = c.feed_forward};
    beside_wide_ = kernel::cuda::few_rows_shared_bytes(down, *e.gpu_);
    w.mixer == Mixer::recurrent ? recurrent() : attention();
    Product up = of_norm(w.ffn_norm, w.gate_and_up, 2 * c.feed_forward);
    up.out = e.few_in_, up.swiglu = true;
    multiply(up);
    multiply(down);
  }
  // logits = W norm(x)
  static void head(GpuExecutor& e, const float* x, int64_t rows, float* logits) {
    Product product;
    product.matrix = e.weights_.head, product.rows = rows, product.columns = e.c.channels;
    product.outputs = e.c.vocabulary, product.out = logits;
    product.input = norm_of(x, e.c, e.weights_.norm);
    kernel::cuda::few_rows_product(product, *e.gpu_);
  }

 private:
  using Product = kernel::cuda::FewRowsProduct<Real>;
  using Kind = typename kernel::cuda::FewRowsInput<Real>::Kind;

  static kernel::cuda::FewRowsInput<Real> norm_of(const float* x, const Config& c,
                                                  const float* weight) {
    return {.kind = Kind::norm,
            .x = x,
            .step = c.channels,
            .weight = weight,
            .eps = float(c.norm_eps)};
  }
  Product of_norm(const float* norm, const Real* matrix, int64_t outputs) const {
    Product product;
    product.matrix = matrix, product.rows = e.rows_.rows, product.columns = c.channels;
    product.outputs = outputs, product.input = norm_of(e.x, c, norm);
    product.beside = beside_wide_;
    return product;
  }
  Product added(const Real* matrix, int64_t columns) const {
    Product product;
    product.matrix = matrix, product.rows = e.rows_.rows, product.columns = columns;
    product.outputs = c.channels, product.out = e.x, product.add = true;
    return product;
  }
  void multiply(const Product& product) { kernel::cuda::few_rows_product(product, *e.gpu_); }

  void recurrent();
  void attention();

  GpuExecutor& e;
  const Config& c;
  const GpuLayerWeights<Real>& w;
  int64_t index_;
  int64_t beside_wide_ = 0;  // shared memory of the blocks beside those of the products of a norm
};

template <class Real>
void GpuExecutor<Real>::FewTokens::recurrent() {
  const int64_t columns = e.weights_.recurrent_rows(), heads = c.value_heads;
  Product in = of_norm(w.mixer_norm, w.in, columns);
  in.out = e.few_in_;
  multiply(in);

  kernel::cuda::ConvolvedToken op;
  op.rule = c.rule, op.rows = e.rows_, op.key_heads = c.key_heads, op.heads = heads;
  op.keys = c.key_size, op.values = c.value_size, op.in = e.few_in_, op.step = columns;
  op.convolution = w.convolution, op.taps = std::max<int64_t>(1, c.taps);
  op.inputs_at = w.inputs_at, op.l2_eps = l2_eps;
  const auto column_of = [&](const Real* matrix) {
    return matrix ? (matrix - w.in) / c.channels : -1;
  };
  op.beta_at = column_of(w.beta), op.decay_at = column_of(w.decay);
  op.rate = w.decay_rate, op.bias = w.decay_bias, op.bound = float(c.decay_bound);
  op.beta_scale = float(c.beta_scale), op.state_at = w.memory_at, op.y = e.few_y_;
  op.chunk = e.sane_.chunk;
  if (e.sane_.kind == SaneKind::trained)
    op.alpha = float(e.sane_.alpha), op.tau_at = column_of(w.w_tau);
  if (e.sane_.kind == SaneKind::run_time) op.tau = float(kernel::tau_at_zero(e.sane_.alpha));
  kernel::cuda::convolved_token(op, *e.gpu_);

  Product out = added(w.output, c.value_channels());
  out.input = {.kind = Kind::head_norm,
               .x = e.few_y_,
               .step = c.value_channels(),
               .weight = w.output_norm,
               .eps = float(c.output_norm_eps),
               .size = c.value_size};
  if (c.gate != OutputGate::none) {
    out.input.gate = e.few_in_ + c.mixed_channels(), out.input.gate_step = columns;
    out.input.gate_bias = w.gate_bias, out.input.activation = activation_of(c.gate);
  }
  out.kept = {e.few_in_, columns, c.mixed_channels(), op.taps, w.inputs_at, e.rows_.states};
  multiply(out);
}

template <class Real>
void GpuExecutor<Real>::FewTokens::attention() {
  const int64_t columns = e.weights_.attention_columns(), channels = c.heads * c.head_size;
  Product in = of_norm(w.mixer_norm, w.in, columns);
  in.narrow_out = e.in;
  multiply(in);
  Block block(e, index_);
  block.normalize_queries_and_keys();
  block.append_to_cache();
  block.attend();
  Product out = added(w.output, channels);
  out.input = {.kind = Kind::gated, .narrow_x = e.y, .step = channels};
  if (c.attention_gate) {
    out.input.narrow_gate = e.in + channels + 2 * c.kv_heads * c.head_size;
    out.input.gate_step = columns, out.input.activation = kernel::GateActivation::sigmoid;
  }
  multiply(out);
}

}  // namespace deltasane::gated_delta
