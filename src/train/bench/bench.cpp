#include "train/bench/bench.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/processor_time.h"
#include "base/random.h"
#include "kernel/matmul/gradient.h"
#include "train/optimizer/optimizer.h"

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

}  // namespace

double product_flops(const ParameterLayout& layout) {
  double sum = 0;
  for (const ParameterSlot& slot : layout.slots())
    if (is_product(slot.role)) sum += 6.0 * double(slot.elements());
  return sum;
}

TrainingBatch random_tokens(int64_t vocabulary, int64_t sequences, int64_t time) {
  Random random(1);
  TrainingBatch batch{sequences, time, {}, {}, {}};
  for (int64_t i = 0; i < batch.rows(); ++i) {
    batch.tokens.push_back(int32_t(random.below(uint64_t(vocabulary))));
    batch.targets.push_back(int32_t(random.below(uint64_t(vocabulary))));
    batch.weights.push_back(1);
  }
  return batch;
}

BenchWeights bench_weights_named(const std::string& name) {
  if (name == "random") return BenchWeights::random;
  if (name == "initial") return BenchWeights::initial;
  fail(Fault::usage, "weights: expected random or initial, found '", name, "'");
}

TrainingMeasurement bench_training(const TrainingBench& asked, const kernel::Cpu& cpu) {
  require(asked.repeats > 0, "something is measured");
  TrainingMeasurement measured;
  measured.sequences = asked.sequences, measured.time = asked.time;
  measured.product_flops_per_second = product_rate(cpu);

  const auto model = asked.model(true, cpu), baseline = asked.model(false, cpu);
  const TrainableDescription what = baseline->description();
  measured.title = what.title;
  measured.flops_per_token = product_flops(baseline->layout()) + what.recurrence_flops;
  const TrainingBatch batch = random_tokens(what.vocabulary, asked.sequences, asked.time);
  const LossSettings loss{batch.weight_total(), 0};
  const PassSettings settings{asked.sequences, asked.time, asked.activations};
  const auto plain = baseline->gradient_pass(settings), sane = model->gradient_pass(settings);
  Tensor<float> gradient({model->layout().elements()});
  struct Took {
    double wall, processor, recurrence;
  };
  const auto took = [&](bool with_it) {
    const double wall = seconds_now(), processor = processor_seconds_now();
    if (with_it)
      sane->gradient(model->parameters().all(), batch, loss, gradient.span(), cpu);
    else
      plain->gradient(baseline->parameters().all(), batch, loss,
                      gradient.span().first(size_t(baseline->layout().elements())), cpu);
    return Took{seconds_now() - wall, processor_seconds_now() - processor,
                (with_it ? sane : plain)->recurrence_seconds()};
  };
  took(false), took(true);  // memory is touched for the first time
  std::vector<double> without, with, processor, more, more_in_all;
  std::vector<Took> of[2];
  in_pairs(asked.repeats, [&](bool with_it) { of[with_it].push_back(took(with_it)); });
  for (size_t i = 0; i < of[true].size(); ++i) {
    const Took &one = of[false][i], &other = of[true][i];
    without.push_back(one.wall), with.push_back(other.wall);
    processor.push_back(other.processor);
    more.push_back(other.recurrence - one.recurrence);
    more_in_all.push_back(other.processor - one.processor);
  }
  measured.baseline = timing_of(without), measured.sane = timing_of(with);
  measured.processor_seconds = timing_of(processor).median;
  measured.sane_cost = median_interval(more), measured.whole_cost = median_interval(more_in_all);
  Optimizer optimizer(model->layout(), {});
  const auto update = [&] {
    optimizer.step(model->parameters().all(), gradient.span(), 1e-6, cpu);
  };
  measured.update_seconds = time_repeated(update, 0, 2).median;
  return measured;
}

}  // namespace deltasane::train
