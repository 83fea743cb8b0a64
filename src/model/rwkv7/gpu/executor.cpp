#include "model/rwkv7/gpu/executor.h"

#include <algorithm>
#include <type_traits>

#include "kernel/matmul/quantized_cuda/expand.h"
#include "model/rwkv7/gpu/executor_layer.h"

namespace deltasane {

using namespace kernel::cuda;
using namespace rwkv7;

namespace {

constexpr int64_t logits_at_once = int64_t(1) << 26;  // numbers: 256 MiB

}  // namespace

template <class Real>
GpuWorkspace<Real>::GpuWorkspace(const LayerSizes& s, int64_t vocabulary, int64_t rows,
                                 int64_t chunks_at_most, const Gpu& gpu)
    : capacity(rows),
      chunks(chunks_at_most),
      slice(std::clamp<int64_t>(logits_at_once / vocabulary, 1, rows)) {
  const std::string purpose = cat("the activations of ", rows, " tokens");
  for (GpuTensor<float>* t : {&x, &raw_w, &w})
    *t = GpuTensor<float>(gpu, {rows, s.channels}, purpose);
  for (GpuTensor<Real>* t : {&raw_a, &a, &b, &gate, &g, &y, &v_first})
    *t = GpuTensor<Real>(gpu, {rows, s.channels}, purpose);
  mixes = GpuTensor<Real>(gpu, {6, rows, s.channels}, purpose);
  rkv = GpuTensor<Real>(gpu, {3, rows, s.channels}, purpose);
  low = GpuTensor<Real>(gpu, {rows, s.low(false)}, purpose);
  hidden = GpuTensor<Real>(gpu, {rows, s.feed_forward}, purpose);
  parts = GpuTensor<float>(gpu, {most_parts, std::min(rows, most_tall), s.channels}, purpose);
  x_tau = GpuTensor<Real>(gpu, {chunks, s.channels}, purpose);
  z = GpuTensor<float>(gpu, {chunks, s.heads}, purpose);
  tau = GpuTensor<float>(gpu, {s.layers, chunks, s.heads}, purpose);
  normed = GpuTensor<Real>(gpu, {slice, s.channels}, purpose);
  logits = GpuTensor<float>(gpu, {slice, vocabulary}, purpose);
  loss = GpuTensor<double>(gpu, {rows}, purpose);
  tokens = GpuTensor<int32_t>(gpu, {rows}, purpose);
  targets = GpuTensor<int32_t>(gpu, {rows}, purpose);
}

template <class Real>
GpuExecutor<Real>::GpuExecutor(std::shared_ptr<const Gpu> stream,
                               const Rwkv7GpuWeights<Real>& weights, const GpuSane& sane,
                               int64_t vocabulary, int64_t capacity, int64_t chunks,
                               Branches branches)
    : gpu(std::move(stream)),
      ws(weights.sizes, vocabulary, capacity, chunks, *gpu),
      weights_(weights),
      sane_(sane),
      vocabulary_(vocabulary),
      main_(gpu, Products::full_workspace) {
  for (size_t i = 0; branches == Branches::own_streams && i < std::size(low_ranks); ++i)
    branches_.emplace_back(std::make_shared<const Gpu>(gpu->index()), uint64_t{8} << 20);
  if (weights.are_quantized() && capacity > most_rows_of_blocks)
    expanded_ = GpuTensor<Real>(*gpu, {weights.most_numbers()}, "a quantized matrix as bf16");
}

template <class Real, class Out>
void ProductStream::multiply(const Real* a, const Real* b, Out* c, int64_t rows, int64_t columns,
                             int64_t inner, bool add) {
  Products::Product<Real, Out> product{Products::Form::nt, rows, columns, inner, a, b, c};
  product.add = add;
  products.multiply(product);
}

template <class Real>
template <class Out>
void GpuExecutor<Real>::multiply(const Real* a, const GpuMatrix<Real>& b, Out* c, int64_t rows,
                                 int64_t columns, int64_t inner, bool add, GpuTensor<Real>& room) {
  const Real* numbers = b.rows;
  if constexpr (std::is_same_v<Real, bf16>)
    if (b.is_quantized()) expand(b, columns, inner, room.data(), *gpu), numbers = room.data();
  main_.multiply(a, numbers, c, rows, columns, inner, add);
}

void ProductStream::wait_for(ProductStream& other) {
  if (this == &other) return;
  other.done.record(*other.gpu);
  other.done.stream_wait(gpu->stream());
}

template <class Real>
void GpuExecutor<Real>::embed(const TokenBlock& block) {
  kernel::cuda::embed(block.rows, ws.tokens.data(), weights_.embedding, weights_.ln0_weight,
                      weights_.ln0_bias, weights_.norms.layer_eps, ws.x.data(), *gpu);
}

template <class Real>
void GpuExecutor<Real>::layer(int64_t index, const TokenBlock& block) {
  Layer steps(*this, index, block);
  block_forward(steps);
}

template <class Real>
void GpuExecutor<Real>::set_constant_taus() {
  if (sane_.kind != SaneKind::run_time || has_constant_taus_) return;
  kernel::cuda::fill_tau(ws.tau.data(), ws.tau.elements(), sane_.constant, *gpu);
  has_constant_taus_ = true;
}

template <class Real>
void GpuExecutor<Real>::logits(int64_t from, int64_t count) {
  const int64_t channels = weights_.sizes.channels;
  layer_norm(RowBlock{1, count, channels}, ws.x.data() + from * channels, weights_.ln_out_weight,
             weights_.ln_out_bias, weights_.norms.layer_eps, ws.normed.data(), *gpu);
  if constexpr (std::is_same_v<Real, bf16>)
    if (weights_.head.is_quantized() && count <= most_rows_of_blocks) {
      GroupedProducts op{.rows = count, .overlaps = true};
      op.add({ws.normed.data(), weights_.head, vocabulary_, channels, nullptr, ws.logits.data()});
      return multiply_grouped(op, *gpu);
    }
  if (weights_.head.is_quantized() && !expanded_head_)
    expanded_head_ = GpuTensor<Real>(*gpu, {vocabulary_ * channels}, "a quantized matrix as bf16");
  multiply(ws.normed.data(), weights_.head, ws.logits.data(), count, vocabulary_, channels, false,
           expanded_head_);
}

template struct GpuWorkspace<float>;
template struct GpuWorkspace<bf16>;
template class GpuExecutor<float>;
template class GpuExecutor<bf16>;

}  // namespace deltasane
