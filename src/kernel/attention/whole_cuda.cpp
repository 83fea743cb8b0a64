// With P = softmax(scale S), S = Q K', and R the sums over rows of P dP:
//
//     Y = P V     dP = dY V'     dS = scale P (dP - R)     dQ = dS K     dK += dS' Q     dV += P' dY
//
// for the queries of all heads that share a key head, some tokens at a time.
#include "kernel/attention/whole_cuda.h"

#include <algorithm>

#include "base/error.h"

namespace deltasane::kernel::cuda {
namespace {

constexpr int64_t scores_at_once = int64_t(1) << 26;
using Form = Products::Form;

template <class Real>
class Group {
 public:
  Group(const WholeAttention<Real>& of, const Gpu* gpu, Products* products)
      : op(of), gpu_(gpu), products_(products) {
    together_ = op.heads / op.kv_heads;
    block_ = std::clamp<int64_t>(scores_at_once / (together_ * op.time),
                                 std::min<int64_t>(64, op.time), op.time);
    const int64_t rows = together_ * block_;
    place(q_, rows * op.size), place(dy_, rows * op.size), place(rows_, rows * op.size);
    place(k_, op.time * op.size), place(v_, op.time * op.size);
    place(dk_, op.time * op.size), place(dv_, op.time * op.size);
    place(scores_, rows * op.time), place(dp_, rows * op.time);
    place(p_, rows * op.time), place(ds_, rows * op.time);
  }
  uint64_t bytes() const { return bytes_; }

  void forward(int64_t sequence, int64_t group) {
    take_keys(sequence, group);
    each_block([&](int64_t from, int64_t count) {
      const int64_t rows = together_ * count, keys = from + count;
      probabilities(sequence, group, from, count, nullptr);
      multiply<Real>({Form::nn, rows, op.size, keys, p_, v_, rows_});
      put(rows_, op.y, sequence, group, from, count);
    });
  }
  void backward(int64_t sequence, int64_t group, const WholeAttentionGradient<Real>& d) {
    take_keys(sequence, group);
    zero_on_gpu(dk_, uint64_t(op.time * op.size) * sizeof(float), *gpu_);
    zero_on_gpu(dv_, uint64_t(op.time * op.size) * sizeof(float), *gpu_);
    each_block([&](int64_t from, int64_t count) {
      const int64_t rows = together_ * count, keys = from + count;
      take(d.dy, dy_, sequence, group, from, count);
      multiply<float>({Form::nt, rows, keys, op.size, dy_, v_, dp_});
      probabilities(sequence, group, from, count, dp_);
      multiply<Real>({Form::nn, rows, op.size, keys, ds_, k_, rows_});
      put(rows_, d.dq, sequence, group, from, count);
      multiply<float>({.form = Form::tn,
                       .m = keys,
                       .n = op.size,
                       .k = rows,
                       .a = ds_,
                       .b = q_,
                       .c = dk_,
                       .add = true});
      multiply<float>({.form = Form::tn,
                       .m = keys,
                       .n = op.size,
                       .k = rows,
                       .a = p_,
                       .b = dy_,
                       .c = dv_,
                       .add = true});
    });
    const int64_t step = op.kv_heads * op.size, at = sequence * op.time * step + group * op.size;
    store_rows(dk_, op.time, op.size, d.dk + at, step, *gpu_);
    store_rows(dv_, op.time, op.size, d.dv + at, step, *gpu_);
  }

 private:
  template <class T>
  void place(T*& at, int64_t count) {
    at = op.scratch ? reinterpret_cast<T*>(op.scratch + bytes_) : nullptr;
    bytes_ += (uint64_t(count) * sizeof(T) + 255) / 256 * 256;
  }
  template <class Out>
  void multiply(const Products::Product<Real, Out>& product) {
    products_->multiply(product);
  }
  template <class Use>
  void each_block(Use&& use) {
    for (int64_t from = 0; from < op.time; from += block_)
      use(from, std::min(block_, op.time - from));
  }
  void copy(Real* to, int64_t to_step, const Real* from, int64_t from_step, int64_t rows) {
    constexpr uint64_t one = sizeof(Real);
    copy_rows_on_gpu({to, uint64_t(to_step) * one},
                     {const_cast<Real*>(from), uint64_t(from_step) * one}, uint64_t(op.size) * one,
                     rows, *gpu_);
  }
  // The keys' and values' rows of a head, and the queries' of all heads of a group, packed.
  void take_keys(int64_t sequence, int64_t group) {
    const int64_t step = op.kv_heads * op.size, at = sequence * op.time * step + group * op.size;
    copy(k_, op.size, op.k + at, step, op.time), copy(v_, op.size, op.v + at, step, op.time);
  }
  int64_t query_at(int64_t sequence, int64_t group, int64_t head, int64_t token) const {
    return ((sequence * op.time + token) * op.heads + group * together_ + head) * op.size;
  }
  void take(const Real* from, Real* to, int64_t sequence, int64_t group, int64_t token,
            int64_t count) {
    for (int64_t h = 0; h < together_; ++h)
      copy(to + h * count * op.size, op.size, from + query_at(sequence, group, h, token),
           op.heads * op.size, count);
  }
  void put(const Real* from, Real* to, int64_t sequence, int64_t group, int64_t token,
           int64_t count) {
    for (int64_t h = 0; h < together_; ++h)
      copy(to + query_at(sequence, group, h, token), op.heads * op.size, from + h * count * op.size,
           op.size, count);
  }
  void probabilities(int64_t sequence, int64_t group, int64_t from, int64_t count,
                     const float* dp) {
    const int64_t keys = from + count;
    take(op.q, q_, sequence, group, from, count);
    multiply<float>({Form::nt, together_ * count, keys, op.size, q_, k_, scores_});
    softmax_block(SoftmaxBlock<Real>{together_, count, keys, from, op.window,
                                     op.present ? op.present + sequence * op.time : nullptr,
                                     op.scale, scores_, dp, p_, ds_},
                  *gpu_);
  }

  const WholeAttention<Real>& op;
  const Gpu* gpu_;  // null, as the next: for counting alone
  Products* products_;
  int64_t together_, block_;  // heads of a group, tokens of a block
  uint64_t bytes_ = 0;
  Real *q_, *dy_, *rows_, *k_, *v_, *p_, *ds_;
  float *dk_, *dv_, *scores_, *dp_;
};

template <class Real>
void validate(const WholeAttention<Real>& op) {
  require(op.kv_heads > 0 && op.heads % op.kv_heads == 0 && op.size > 0,
          "whole_attention: expected a multiple of the key heads as heads");
  require(op.q && op.k && op.v && op.scratch, "whole_attention: expected all inputs");
}

template <class Real, class Use>
void each_group(const WholeAttention<Real>& op, Use&& use) {
  for (int64_t sequence = 0; sequence < op.sequences; ++sequence)
    for (int64_t group = 0; group < op.kv_heads; ++group) use(sequence, group);
}

}  // namespace

template <class Real>
uint64_t whole_attention_scratch(const WholeAttention<Real>& op) {
  return Group<Real>(op, nullptr, nullptr).bytes();
}

template <class Real>
void whole_attention(const WholeAttention<Real>& op, Products& products, const Gpu& gpu) {
  validate(op);
  Group<Real> one(op, &gpu, &products);
  each_group(op, [&](int64_t sequence, int64_t group) { one.forward(sequence, group); });
}

template <class Real>
void whole_attention_backward(const WholeAttention<Real>& op, const WholeAttentionGradient<Real>& d,
                              Products& products, const Gpu& gpu) {
  validate(op);
  Group<Real> one(op, &gpu, &products);
  each_group(op, [&](int64_t sequence, int64_t group) { one.backward(sequence, group, d); });
}

template uint64_t whole_attention_scratch(const WholeAttention<float>&);
template uint64_t whole_attention_scratch(const WholeAttention<bf16>&);
template void whole_attention(const WholeAttention<float>&, Products&, const Gpu&);
template void whole_attention(const WholeAttention<bf16>&, Products&, const Gpu&);
template void whole_attention_backward(const WholeAttention<float>&,
                                       const WholeAttentionGradient<float>&, Products&, const Gpu&);
template void whole_attention_backward(const WholeAttention<bf16>&,
                                       const WholeAttentionGradient<bf16>&, Products&, const Gpu&);

}  // namespace deltasane::kernel::cuda
