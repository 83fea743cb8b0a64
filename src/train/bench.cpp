#include "train/bench.h"

#include <algorithm>
#include <ctime>
#include <vector>

#include "base/random.h"
#include "kernel/matmul/gradient.h"
#include "model/random_rwkv7.h"
#include "train/optimizer.h"

namespace deltasane::train {
namespace {

double product_rate(const kernel::Cpu& cpu) {
  constexpr int64_t n = 1024;
  Tensor<float> a({n, n}), b({n, n}), c({n, n});
  for (int64_t i = 0; i < n * n; ++i) a[i] = float(i % 7) - 3, b[i] = float(i % 5) - 2;
  const auto rate = [&](auto product) {
    return 2.0 * n * n * n / time_repeated(product, 0.5, 5).low;
  };
  const kernel::Weights w = kernel::Weights::view(kernel::WeightType::f32, b.data(), n, n);
  return std::max({rate([&] { kernel::matmul(w, a.view(), c.view(), cpu); }),
                   rate([&] { kernel::matmul_nn(a.view(), b.view(), c.view(), cpu); }),
                   rate([&] { kernel::matmul_tn(a.view(), b.view(), c.view(), cpu); })});
}

// The median, and the middle half instead of the extremes.
Timing middle_half(std::vector<double> seconds) {
  std::ranges::sort(seconds);
  const size_t n = seconds.size();
  return {seconds[n / 2], seconds[n / 4], seconds[n - 1 - n / 4], int(n)};
}

struct Moment {
  double wall, processor;  // seconds; the latter of all threads
};
Moment now() { return {seconds_now(), double(std::clock()) / CLOCKS_PER_SEC}; }

}  // namespace

double product_flops(const ParameterLayout& layout) {
  double sum = 0;
  for (const ParameterSlot& slot : layout.slots())
    if (slot.shape.rank() == 2 && slot.name != "emb.weight" && !slot.name.ends_with("r_k"))
      sum += 6.0 * double(slot.elements());
  return sum;
}

double recurrence_flops(const ParameterLayout& layout) {
  const Rwkv7Shape& shape = layout.shape();
  return 28.0 * double(shape.layers * shape.channels * shape.head_size);
}

Batch random_tokens(const Rwkv7Shape& shape, int64_t sequences, int64_t time) {
  Random random(1);
  Batch batch{sequences, time, {}, {}, {}};
  for (int64_t i = 0; i < batch.rows(); ++i) {
    batch.tokens.push_back(int32_t(random.below(uint64_t(shape.vocabulary))));
    batch.targets.push_back(int32_t(random.below(uint64_t(shape.vocabulary))));
    batch.weights.push_back(1);
  }
  return batch;
}

TrainingMeasurement bench_training(const Rwkv7Shape& shape, int64_t sequences, int64_t time,
                                   int repeats, Activations activations, const kernel::Cpu& cpu) {
  require(repeats > 0, "something is measured");
  TrainingMeasurement measured;
  measured.shape = shape, measured.sequences = sequences, measured.time = time;
  measured.product_flops_per_second = product_rate(cpu);

  Rwkv7Shape with_sane = shape;
  with_sane.sane = true;
  const SaneSettings settings{3, 16};
  Parameters model(RandomRwkv7(with_sane, 1), settings);
  const Parameters baseline(RandomRwkv7(shape, 1), std::nullopt);
  measured.flops_per_token = product_flops(baseline.layout()) + recurrence_flops(baseline.layout());
  const Batch batch = random_tokens(shape, sequences, time);
  const LossSettings loss{batch.weight_total(), 0};
  Rwkv7Training plain(baseline.layout(), std::nullopt, sequences, time, activations);
  Rwkv7Training sane(model.layout(), settings, sequences, time, activations);
  Tensor<float> gradient({model.layout().elements()});
  struct Took {
    double wall, processor;
  };
  const auto took = [&](bool with_it) {
    const Moment began = now();
    if (with_it)
      sane.gradient(model.all(), batch, loss, gradient.span(), cpu);
    else
      plain.gradient(baseline.all(), batch, loss,
                     gradient.span().first(size_t(baseline.layout().elements())), cpu);
    const Moment ended = now();
    return Took{ended.wall - began.wall, ended.processor - began.processor};
  };
  took(false), took(true);  // memory is touched for the first time
  std::vector<double> without, with, processor, more;
  for (int i = 0; i < repeats; ++i) {
    Took one = took(i % 2 != 0), other = took(i % 2 == 0);
    if (i % 2 != 0) std::swap(one, other);  // one: without
    without.push_back(one.wall), with.push_back(other.wall);
    processor.push_back(other.processor);
    more.push_back(other.processor - one.processor);
  }
  measured.baseline = timing_of(without), measured.sane = timing_of(with);
  measured.processor_seconds = timing_of(processor).median;
  measured.sane_cost = middle_half(more);
  Optimizer optimizer(model.layout(), {});
  measured.update_seconds =
      time_repeated([&] { optimizer.step(model.all(), gradient.span(), 1e-6, cpu); }, 0, 2).median;
  return measured;
}

}  // namespace deltasane::train
