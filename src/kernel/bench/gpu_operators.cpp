#include "kernel/bench/gpu_operators.h"

#include <algorithm>
#include <functional>
#include <list>
#include <string>

#include "base/cat.h"
#include "base/random.h"
#include "kernel/cross_entropy/cuda.h"
#include "kernel/cuda/gpu_timing.h"
#include "kernel/matmul/cuda.h"
#include "kernel/activation/cuda.h"
#include "kernel/adamw/cuda.h"
#include "kernel/embedding/cuda.h"
#include "kernel/muon/cuda.h"
#include "kernel/norm/cuda.h"
#include "kernel/rows/cuda.h"
#include "kernel/sane/cuda.h"
#include "kernel/time_mix/cuda.h"
#include "kernel/token_shift/cuda.h"
#include "kernel/sampler/cuda.h"
#include "tensor/cuda/gpu_tensor.h"

namespace deltasane::kernel {
namespace {

using namespace cuda;

// Owns tensors of random numbers.
class Tensors {
 public:
  explicit Tensors(const Gpu& gpu) : gpu_(gpu) {}
  float* floats(int64_t count) { return filled(floats_, count); }
  bf16* reals(int64_t count) { return filled(reals_, count); }

 private:
  template <class T>
  T* filled(std::list<GpuTensor<T>>& kept, int64_t count) {
    Random random(1, uint64_t(floats_.size() + reals_.size()));
    Tensor<T> some({std::min<int64_t>(count, 1 << 16)});
    for (T& value : some.span()) value = T(float(random.uniform(-1, 1)));
    kept.emplace_back(gpu_, Shape{count}, "a benchmark");
    T* const at = kept.back().data();
    copy_to_gpu(at, some.data(), uint64_t(some.elements()) * sizeof(T), gpu_);
    for (int64_t done = some.elements(); done < count; done *= 2)
      copy_on_gpu(at + done, at, uint64_t(std::min(done, count - done)) * sizeof(T), gpu_);
    gpu_.wait();
    return at;
  }

  const Gpu& gpu_;
  std::list<GpuTensor<float>> floats_;
  std::list<GpuTensor<bf16>> reals_;
};

constexpr int64_t vocabulary = 65536;

struct Bench {
  const Gpu& gpu;
  RowBlock rows{8, 4096, 1024};
  std::vector<GpuOperatorMeasurement> measured;
  int64_t count() const { return rows.rows() * rows.channels; }
  int64_t of_heads() const { return count() / 64; }  // one number for each head of each row

  void measure(const std::string& name, double bytes, const std::function<void()>& body,
               double flops = 0) {
    measured.push_back({name, bytes, flops, time_on_gpu(gpu, body)});
  }

  template <class Out>
  void product(const std::string& what, Products::Form form, int64_t m, int64_t n, int64_t k) {
    Tensors t(gpu);
    Products products(gpu);
    const bf16 *const a = t.reals(m * k), *const b = t.reals(n * k);
    GpuTensor<Out> c(gpu, {m, n}, "a benchmark");
    measure(
        cat("product, ", what, ": (", m, ", ", k, ") x (", k, ", ", n, ")"),
        double(m * k + n * k) * sizeof(bf16) + double(m * n) * sizeof(Out),
        [&] {
          products.multiply<bf16, Out>({form, m, n, k, a, b, c.data()});
        },
        2 * double(m) * double(n) * double(k));
  }

  void products() {
    const int64_t n = rows.rows(), C = rows.channels;
    product<bf16>("forward", Products::Form::nt, n, C, C);
    product<bf16>("forward", Products::Form::nt, n, 4 * C, C);
    product<bf16>("dx", Products::Form::nn, n, C, 4 * C);
    product<float>("dW", Products::Form::tn, 4 * C, C, n);
    product<float>("logits", Products::Form::nt, 4096, vocabulary, C);
  }

  void norms() {
    Tensors t(gpu);
    const int64_t C = rows.channels;
    const double n = double(count());
    const float *weight = t.floats(C), *bias = t.floats(C), *x = t.floats(count());
    bf16* const y = t.reals(count());
    measure("layer_norm", n * 6, [&] { layer_norm(rows, x, weight, bias, 1e-5f, y, gpu); });
    for (const int mixes : {1, 6}) {
      NormShiftGradient<bf16> g{};
      NormShift<bf16>& op = g.op;
      op.rows = rows, op.x = x, op.weight = weight, op.bias = bias, op.eps = 1e-5f;
      op.mixes = mixes;
      for (int m = 0; m < mixes; ++m) {
        op.mu[m] = t.floats(C), op.out[m] = t.reals(count());
        g.dout[m] = op.out[m], g.dmu[m] = t.floats(C);
      }
      const bool with_tau = mixes == 6;
      const int64_t ends = rows.rows() / op.chunk;
      const double of_tau = with_tau ? 1.0 / double(op.chunk) : 0.0;
      if (with_tau) {
        op.chunks = rows.time / op.chunk;
        op.mu_tau = t.floats(C), op.out_tau = t.reals(ends * C), op.away_tau = t.reals(ends * C);
        g.dout_tau = t.reals(ends * C);
      }
      g.dx = t.floats(count()), g.dweight = t.floats(C), g.dbias = t.floats(C);
      g.scratch = t.floats(norm_shift_scratch(rows));
      const std::string name = mixes == 1 ? "norm_shift, 1 mix" : "norm_shift, 6 mixes";
      measure(with_tau ? name + " and tau" : name, n * (4 + 2 * mixes + 4 * of_tau),
              [&] { norm_shift(op, gpu); });
      measure(name + ", backward", n * (12 + 2 * mixes), [&, g]() mutable {
        g.dout_tau = nullptr;
        norm_shift_backward(g, gpu);
      });
      if (!with_tau) continue;
      measure(name + " and tau, backward", n * (12 + 2 * mixes + 2 * of_tau),
              [&] { norm_shift_backward(g, gpu); });
      const int64_t heads = C / 64;
      const TauMixGradient<bf16> of_mix{.ends = ends,
                                        .channels = C,
                                        .heads = heads,
                                        .alpha = 3,
                                        .z = t.floats(ends * heads),
                                        .dtau = t.floats(ends * heads),
                                        .weight = t.reals(C * heads),
                                        .dz = t.floats(ends * heads),
                                        .dx_tau = t.reals(ends * C)};
      measure("tau's mix, backward", n * of_tau * 2 + double(heads * (12 * ends + 2 * C)),
              [&] { tau_mix_backward(of_mix, gpu); });
      using Weights = TauWeightsGradient<bf16>;
      Weights weights{ends, C, heads, Weights::most_layers, {}};
      for (Weights::Layer& layer : weights.layer)
        layer = {t.reals(ends * C),  t.reals(ends * C),   t.floats(ends * heads),
                 t.reals(C * heads), t.floats(C * heads), t.floats(C)};
      measure(cat("tau's weights, backward, ", weights.layers, " layers"),
              weights.layers * (n * of_tau * 4 + double(heads * (4 * ends + 10 * C))),
              [&] { tau_weights_backward(weights, gpu); });
    }
  }

  void time_mix_inputs_both() {
    Tensors t(gpu);
    const int64_t C = rows.channels;
    TimeMixInputsGradient<bf16> g{};
    cuda::TimeMixInputs<bf16>& op = g.op;
    const auto reals = [&] { return t.reals(count()); };
    op.rows = rows, op.raw_w = t.floats(count());
    op.raw_a = reals(), op.raw_k = reals(), op.raw_v = reals();
    op.gate = reals(), op.v_first = reals();
    op.w0 = t.floats(C), op.a0 = t.floats(C), op.v0 = t.floats(C), op.k_k = t.floats(C);
    op.k_a = t.floats(C), op.w = t.floats(count());
    op.a = reals(), op.b = reals(), op.k = reals(), op.v = reals();
    g.dw = op.w, g.dr = reals(), g.da = op.a, g.db = op.b, g.dk = op.k, g.dv = op.v;
    g.dbonus = t.floats(of_heads()), g.dv_bonus = reals(), g.r = reals(), g.r_k = t.floats(C);
    g.draw_r = reals(), g.draw_w = reals(), g.draw_a = reals();
    g.draw_k = reals(), g.draw_v = reals(), g.dgate = reals(), g.dv_first = t.floats(count());
    g.dw0 = t.floats(C), g.da0 = t.floats(C), g.dv0 = t.floats(C), g.dk_k = t.floats(C);
    g.dk_a = t.floats(C), g.scratch = t.floats(time_mix_scratch(rows));
    measure("time_mix_inputs", double(count()) * 26, [&] { time_mix_inputs(op, gpu); });
    measure("time_mix_inputs, backward", double(count()) * 52 + double(of_heads()) * 4,
            [&] { time_mix_inputs_backward(g, gpu); });
  }

  void time_mix_output_both() {
    Tensors t(gpu);
    const int64_t C = rows.channels;
    const auto reals = [&] { return t.reals(count()); };
    TimeMixOutputGradient<bf16> g{};
    g.op = {rows,        reals(),     reals(),     reals(), reals(), reals(),
            t.floats(C), t.floats(C), t.floats(C), 64e-5f,  reals()};
    g.dy = reals(), g.dread = reals(), g.dbonus = t.floats(of_heads()), g.dv_bonus = reals();
    g.dg = reals(), g.dweight = t.floats(C), g.dbias = t.floats(C), g.dr_k = t.floats(C);
    g.scratch = t.floats(time_mix_scratch(rows));
    measure("time_mix_output", double(count()) * 12, [&] { time_mix_output(g.op, gpu); });
    measure("time_mix_output, backward", double(count()) * 18 + double(of_heads()) * 4,
            [&] { time_mix_output_backward(g, gpu); });
  }

  void elements() {
    Tensors t(gpu);
    bf16 *const x = t.reals(count()), *const y = t.reals(count());
    const double n = double(count());
    measure("activate, tanh", n * 4, [&] { activate(Activation::tanh, x, count(), gpu); });
    measure("activate, squared_relu", n * 4,
            [&] { activate(Activation::squared_relu, x, count(), gpu); });
    measure("activate, squared_relu, backward", n * 6,
            [&] { activate_backward(Activation::squared_relu, y, x, count(), gpu); });
    const float* const more = t.floats(count());
    measure("add_rows", n * 8, [&] { add_rows(more, x, count(), gpu); });
  }

  void table_and_loss() {
    Tensors t(gpu);
    const int64_t some_rows = 4096;
    Random random(2);
    Tensor<int32_t> tokens({rows.rows()});
    for (int32_t& token : tokens.span()) token = int32_t(random.below(uint64_t(vocabulary)));
    const GpuTensor<int32_t> on_gpu(gpu, tokens, "a benchmark");
    const double n = double(count());
    const bf16* const table = t.reals(vocabulary * rows.channels);
    float* const x = t.floats(count());
    const float *weight = t.floats(rows.channels), *bias = t.floats(rows.channels);
    measure("embed", n * 6,
            [&] { embed(rows, on_gpu.data(), table, weight, bias, 1e-5f, x, gpu); });
    float* const dtable = t.floats(vocabulary * rows.channels);
    GpuTensor<int32_t> scratch(gpu, {embed_scratch(rows, vocabulary)}, "a benchmark");
    measure("embed, backward", n * 12, [&] {
      embed_backward(rows, on_gpu.data(), vocabulary, x, dtable, scratch.data(), gpu);
    });
    bf16* const logits = t.reals(some_rows * vocabulary);
    GpuTensor<double> loss(gpu, {some_rows}, "a benchmark");
    cuda::CrossEntropy<bf16> op{some_rows, vocabulary, logits,     on_gpu.data(),
                                nullptr,   1e-4f,      loss.data()};
    measure("cross_entropy, 4096 rows of 65536", double(some_rows * vocabulary) * 4,
            [&] { cross_entropy(op, gpu); });
  }

  void optimizers() {
    Tensors t(gpu);
    const int64_t many = int64_t{1} << 26;
    float *const w = t.floats(many), *const g = t.floats(many), *const m = t.floats(many),
                 *const v = t.floats(many);
    zero_on_gpu(v, uint64_t(many) * sizeof(float), gpu);
    bf16* const copy = t.reals(many);
    GradientClip clip(gpu, many);
    const AdamwSlot slot[] = {{0, many, 0.1, 1}};
    const Adamw adamw(gpu, slot);
    measure("gradient length of 2^26", double(many) * 4, [&] { clip.measure(g, 1.0, gpu); });
    measure("adamw of 2^26", double(many) * 30, [&] {
      adamw.step({1e-6, 0.9, 0.99, 1e-18, 10}, clip.on_gpu(), {w, copy, g, m, v}, gpu);
    });
    std::vector<MuonSlot> slots;
    for (int64_t i = 0; i < 16; ++i) slots.push_back({i << 22, 4096, 1024, 0.1});
    Muon muon(gpu, slots);
    Products products(gpu);
    // g and m are read twice. Five steps of Newton-Schulz are three products each: X X' and B X, of
    // 1024 x 4096 x 1024, and A A of 1024 x 1024 x 1024.
    const double side = 1024, steps = 16 * 5;
    measure(
        "muon, 16 of (4096, 1024)", double(many) * 30,
        [&] {
          muon.step({1e-6, 0.95}, clip.on_gpu(), {w, copy, g, m}, products, gpu);
        },
        steps * 2 * side * side * (4096 + 4096 + side));
  }

  // The bytes count logits once; the kernel reads them more often, because it samples without
  // sorting.
  void sampler() {
    const int64_t sequences = 256;
    Tensors t(gpu);
    float* const logits = t.floats(sequences * vocabulary);
    const auto pick = [&](const std::string& name, const SamplingParams& how) {
      GpuTensor<SamplingParams> picking(gpu, {sequences}, "a benchmark");
      picking.upload(std::vector<SamplingParams>(size_t(sequences), how), gpu);
      GpuTensor<SampledToken> picked(gpu, {sequences}, "a benchmark");
      measure(cat("picking from 256 rows of 65536, ", name), double(sequences * vocabulary) * 4,
              [&] {
                sample_rows({sequences, vocabulary, logits, picking.data(), nullptr, picked.data()},
                            gpu);
              });
    };
    SamplingParams how{.greedy = true};
    pick("greedy", how);
    how = {.scale = 1.44f, .filter_scale = 1.44f, .uniform = 0.5};
    pick("temperature 1", how);
    how.top_p = 0.8, how.top_k = 20;
    pick("top-k 20, top-p 0.8", how);
  }
};

}  // namespace

std::vector<GpuOperatorMeasurement> bench_gpu_operators(const Gpu& gpu) {
  Bench bench{gpu, {8, 4096, 1024}, {}};
  bench.products();
  bench.norms();
  bench.time_mix_inputs_both();
  bench.time_mix_output_both();
  bench.elements();
  bench.table_and_loss();
  bench.optimizers();
  bench.sampler();
  return std::move(bench.measured);
}

}  // namespace deltasane::kernel
