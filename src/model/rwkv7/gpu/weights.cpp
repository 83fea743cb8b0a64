#include "model/rwkv7/gpu/weights.h"

#include <algorithm>
#include <type_traits>

#include "model/cpu/load_weights.h"
#include "model/gpu/quantized_matrix.h"

namespace deltasane {
namespace {

using rwkv7::LayerSizes;
using rwkv7::LayerWeights;

// With what lowers it, for who has not enough memory.
template <class Real>
std::string purpose(const std::string& name) {
  return cat(sizeof(Real) == 4 ? "float weights (bf16 weights need half)"
                               : "weights (the device cpu needs none)",
             ", at ", name);
}

int64_t filled_up(int64_t size) { return (size + 31) / 32 * 32; }

LayerSizes sizes_of(const Rwkv7Shape& s) {
  return {s.layers,
          s.channels,
          s.heads,
          filled_up(s.feed_forward),
          filled_up(std::max(s.rank_w, s.rank_a)),
          filled_up(s.rank_v),
          filled_up(s.rank_g)};
}

// Into the corner of a matrix of zeros that has `columns`, from row `first` on.
template <class Real>
void put(const Tensor<float>& from, int64_t first, int64_t columns, std::vector<Real>& to) {
  const int64_t width = from.shape()[1];
  for (int64_t i = 0; i < from.shape()[0]; ++i)
    for (int64_t j = 0; j < width; ++j)
      to[size_t((first + i) * columns + j)] = Real(from[i * width + j]);
}

Tensor<float> turned(const Tensor<float>& from) {
  Tensor<float> to({from.shape()[1], from.shape()[0]});
  for (int64_t i = 0; i < from.shape()[0]; ++i)
    for (int64_t j = 0; j < from.shape()[1]; ++j) to.view()(j, i) = from.view()(i, j);
  return to;
}

}  // namespace

template <class Real>
Rwkv7GpuWeights<Real>::Rwkv7GpuWeights(const Rwkv7Checkpoint& checkpoint, const Rwkv7Shape& shape,
                                       SaneKind sane, kernel::WeightType type_, bool stored_types,
                                       const Gpu& gpu)
    : sizes(sizes_of(shape)),
      norms(shape.norms),
      type(type_),
      checkpoint_(checkpoint),
      gpu_(gpu),
      sane_(sane),
      stored_types_(stored_types) {
  embedding = matrix("emb.weight", shape.vocabulary, shape.channels);
  embedding_bytes = bytes;
  if (shape.embedding_norm)
    ln0_weight = vector("blocks.0.ln0.weight"), ln0_bias = vector("blocks.0.ln0.bias");
  for (int64_t i = 0; i < shape.layers; ++i) layers.push_back(load_layer(i));
  ln_out_weight = vector("ln_out.weight"), ln_out_bias = vector("ln_out.bias");
  head = large_matrix("head.weight", shape.vocabulary, shape.channels);
}

template <class Real>
int64_t Rwkv7GpuWeights<Real>::most_numbers() const {
  return sizes.channels * std::max(sizes.channels, sizes.feed_forward);
}

template <class Real>
const Real* Rwkv7GpuWeights<Real>::keep(const std::vector<Real>& numbers, const std::string& name) {
  memory_.emplace_back(gpu_, numbers.size() * sizeof(Real), purpose<Real>(name));
  copy_to_gpu(memory_.back().data(), numbers.data(), numbers.size() * sizeof(Real), gpu_);
  gpu_.wait();
  bytes += numbers.size() * sizeof(Real);
  return reinterpret_cast<const Real*>(memory_.back().data());
}

template <class Real>
const float* Rwkv7GpuWeights<Real>::vector(const std::string& name) {
  const Tensor<float> numbers = checkpoint_.read(name);
  memory_.emplace_back(gpu_, numbers.span().size_bytes(), purpose<Real>(name));
  copy_to_gpu(memory_.back().data(), numbers.data(), numbers.span().size_bytes(), gpu_);
  gpu_.wait();
  bytes += numbers.span().size_bytes();
  return reinterpret_cast<const float*>(memory_.back().data());
}

// (rows, columns), as it is stored, filled up with zeros.
template <class Real>
const Real* Rwkv7GpuWeights<Real>::matrix(const std::string& name, int64_t rows, int64_t columns) {
  std::vector<Real> numbers(size_t(rows * columns), Real(0.0f));
  put(checkpoint_.read(name), 0, columns, numbers);
  return keep(numbers, name);
}

template <class Real>
kernel::cuda::GpuMatrix<Real> Rwkv7GpuWeights<Real>::large_matrix(const std::string& name,
                                                                  int64_t rows, int64_t columns) {
  if (!are_quantized() || rows % 32 != 0) return matrix(name, rows, columns);
  const auto stored = direct_type(checkpoint_.type(name));
  const bool stays = stored_types_ && stored && is_quantized(*stored);
  const kernel::Weights weights =
      load_weights({checkpoint_.in_place(name), checkpoint_.type(name), checkpoint_.shape(name),
                    [&] { return checkpoint_.read(name); }},
                   stays ? *stored : type, nullptr);
  require(kernel::cuda::columns_in_blocks(weights.in()) == columns,
          "a quantized matrix is filled up to whole blocks");
  memory_.push_back(upload_blocks(weights, rows, gpu_, purpose<Real>(name)));
  bytes += memory_.back().size();
  return {weights.type(), memory_.back().data()};
}

// (rows, columns) of what is stored the other way round.
template <class Real>
const Real* Rwkv7GpuWeights<Real>::factor(const std::string& name, int64_t rows, int64_t columns) {
  std::vector<Real> numbers(size_t(rows * columns), Real(0.0f));
  put(turned(checkpoint_.read(name)), 0, columns, numbers);
  return keep(numbers, name);
}

template <class Real>
LayerWeights<Real> Rwkv7GpuWeights<Real>::load_layer(int64_t index) {
  const std::string block = cat("blocks.", index, "."), att = block + "att.", ffn = block + "ffn.";
  const bool first = index == 0;
  const int64_t channels = sizes.channels;
  LayerWeights<Real> w{};
  w.ln1_weight = vector(block + "ln1.weight"), w.ln1_bias = vector(block + "ln1.bias");
  w.ln2_weight = vector(block + "ln2.weight"), w.ln2_bias = vector(block + "ln2.bias");
  w.ln_x_weight = vector(att + "ln_x.weight"), w.ln_x_bias = vector(att + "ln_x.bias");
  w.x_r = vector(att + "x_r"), w.x_w = vector(att + "x_w"), w.x_k = vector(att + "x_k");
  w.x_v = vector(att + "x_v"), w.x_a = vector(att + "x_a"), w.x_g = vector(att + "x_g");
  w.ffn_x_k = vector(ffn + "x_k");
  w.w0 = vector(att + "w0"), w.a0 = vector(att + "a0"), w.k_k = vector(att + "k_k");
  w.k_a = vector(att + "k_a"), w.r_k = vector(att + "r_k");
  if (!first) w.v0 = vector(att + "v0");
  if (sane_ == SaneKind::trained) {
    w.x_tau = vector(att + "x_tau");
    w.w_tau = factor(att + "w_tau", sizes.heads, channels);
  }

  GpuLayerMatrices<Real> m;
  const char* const rkv[] = {"receptance.weight", "key.weight", "value.weight"};
  const int64_t rows_above = are_quantized() ? 0 : 3 * channels;  // the factors
  std::vector<Real> in(size_t((rows_above + sizes.low(first)) * channels), Real(0.0f));
  for (int64_t i = 0; i < 3; ++i)
    if (are_quantized())
      m.rkv[i] = large_matrix(att + rkv[i], channels, channels);
    else
      put(checkpoint_.read(att + rkv[i]), i * channels, channels, in);
  int64_t row = rows_above;
  const auto down = [&](const char* name, int64_t rank) {
    put(turned(checkpoint_.read(att + name)), row, channels, in);
    row += rank;
  };
  down("w1", sizes.rank_wa), down("a1", sizes.rank_wa);
  if (!first) down("v1", sizes.rank_v);
  down("g1", sizes.rank_g);
  const Real* const kept = keep(in, att + "receptance.weight");
  m.down = kept + rows_above * channels;
  if (!are_quantized())
    for (int64_t i = 0; i < 3; ++i) m.rkv[i] = kept + i * channels * channels;

  w.up_w = factor(att + "w2", channels, sizes.rank_wa);
  w.up_a = factor(att + "a2", channels, sizes.rank_wa);
  w.up_g = factor(att + "g2", channels, sizes.rank_g);
  if (!first) w.up_v = factor(att + "v2", channels, sizes.rank_v);
  m.output = large_matrix(att + "output.weight", channels, channels);
  m.ffn_key = large_matrix(ffn + "key.weight", sizes.feed_forward, channels);
  m.ffn_value = large_matrix(ffn + "value.weight", channels, sizes.feed_forward);
  w.in = m.rkv[0].rows, w.output = m.output.rows;
  w.ffn_key = m.ffn_key.rows, w.ffn_value = m.ffn_value.rows;
  matrices.push_back(m);
  return w;
}

template class Rwkv7GpuWeights<float>;
template class Rwkv7GpuWeights<bf16>;

}  // namespace deltasane
