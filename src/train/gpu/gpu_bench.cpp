#include "train/gpu/gpu_bench.h"

#include <algorithm>
#include <vector>

#include "kernel/bench/gpu_cycles.h"
#include "kernel/bench/gpu_limits.h"
#include "train/bench/clocked_steps.h"
#include "train/gpu/gpu_device.h"

namespace deltasane::train {
namespace gpu {
namespace {

// What is measured, with every kind of step.
struct BenchCase {
  TrainingBatch batch;
  Activations activations;
  Precision precision;
  int repeats, gpu_index;

  TrainingJob job(const TrainableModel& model, OptimizerKind kind = OptimizerKind::adamw) const {
    OptimizerSettings optimizer;
    optimizer.kind = kind;
    return {model.clone(), optimizer, 1, {batch.sequences, batch.time, activations, precision}};
  }
};

void one_step(TrainingDevice& device, const TrainingBatch& batch) {
  device.gradient({&batch, 1}, {batch.weight_total(), 0}, [] {});
  device.clip("bench: ");
  device.update(1e-6);
}

// step() with its seconds and cycles.
template <class Step>
ClockedStep cost_of(const Gpu& gpu, Step&& step) {
  kernel::CycleMark first(gpu), last(gpu);
  TimedGpuEvent began, ended;
  first.record(gpu), began.record(gpu);
  step();
  ended.record(gpu), last.record(gpu);
  ended.wait();
  return {ended.milliseconds_since(began) / 1e3, last.cycles_since(first, gpu)};
}

// take(sane) for both kinds of steps.
template <class Real, class Take>
void steps_in_pairs(int pairs, GpuTrainingDevice<Real>& device, Take&& take) {
  in_pairs(pairs, [&](bool sane) {
    device.neutralize(sane);
    take(sane);
  });
}

Timing timing_of_steps(const ClockedSteps& steps) {
  std::vector<double> seconds;
  for (const ClockedStep& step : steps) seconds.push_back(step.seconds);
  return timing_of(seconds);
}

// What steps of the second kind take more than those of the first, by pairs.
MedianInterval more_of_second(const std::vector<ClockedSteps>& kinds) {
  std::vector<double> more;
  for (size_t i = 0; i < kinds[1].size(); ++i)
    more.push_back(kinds[1][i].seconds - kinds[0][i].seconds);
  return median_interval(more);
}

// Where the time goes: of marked steps, at one clock.
template <class Real>
void measure_parts(const BenchCase& one, GpuTrainingDevice<Real>& device,
                   GpuTrainingMeasurement& measured) {
  std::vector<ClockedSteps> parts[kinds_of_work];
  for (auto& kinds : parts) kinds.resize(2);
  steps_in_pairs((one.repeats + 1) / 2, device, [&](bool sane) {
    std::array<double, kinds_of_work> milliseconds{};
    const double clock = cost_of(device.gpu(), [&] {
                           device.clock().start();
                           one_step(device, one.batch);
                           milliseconds = device.clock().stop(device.gpu());
                         }).clock();
    for (size_t part = 0; part < milliseconds.size(); ++part) {
      const double seconds = milliseconds[part] / 1e3;
      parts[part][sane].push_back({seconds, seconds * clock});
    }
  });
  for (size_t part = 0; part < kinds_of_work; ++part) {
    const std::vector<ClockedSteps> kinds = at_one_clock(parts[part]);
    measured.baseline.milliseconds[part] = 1e3 * timing_of_steps(kinds[false]).median;
    measured.sane.milliseconds[part] = 1e3 * timing_of_steps(kinds[true]).median;
  }
}

template <class Real>
void measure_steps(const BenchCase& one, const TrainableModel& model,
                   GpuTrainingMeasurement& measured) {
  GpuTrainingDevice<Real> device(one.job(model), one.gpu_index);
  measured.activation_bytes = device.activation_bytes();
  // Products choose their algorithms, those with results of 0 after the first update, and memory
  // grows.
  steps_in_pairs(2, device, [&](bool) { one_step(device, one.batch); });
  std::vector<ClockedSteps> kinds(2);
  steps_in_pairs(one.repeats, device, [&](bool sane) {
    kinds[sane].push_back(cost_of(device.gpu(), [&] { one_step(device, one.batch); }));
  });
  measured.baseline.seconds = timing_of_steps(kinds[false]);
  measured.sane.seconds = timing_of_steps(kinds[true]);
  measured.sane_cost = more_of_second(kinds);
  measured.sane_cost_at_one_clock = more_of_second(at_one_clock(kinds));
  measure_parts(one, device, measured);
}

// What an update with Muon takes.
template <class Real>
double muon_seconds(const BenchCase& one, const TrainableModel& model) {
  GpuTrainingDevice<Real> device(one.job(model, OptimizerKind::muon), one.gpu_index);
  constexpr int unmeasured = 4;  // products choose their algorithms
  std::vector<double> seconds;
  for (int i = 0; i < unmeasured + 3; ++i) {
    device.gradient({&one.batch, 1}, {one.batch.weight_total(), 0}, [] {});
    device.clip("bench: ");
    TimedGpuEvent began, ended;
    began.record(device.gpu());
    device.update(1e-6);
    ended.record(device.gpu());
    ended.wait();
    if (i >= unmeasured) seconds.push_back(ended.milliseconds_since(began) / 1e3);
  }
  return timing_of(seconds).median;
}

template <class Real>
void measure(const BenchCase& one, const TrainableModel& model, GpuTrainingMeasurement& measured) {
  measure_steps<Real>(one, model, measured);
  measured.muon_seconds = muon_seconds<Real>(one, model);
}

}  // namespace
}  // namespace gpu

GpuTrainingMeasurement bench_gpu_training(const TrainingBench& asked, Precision precision,
                                          int gpu_index, const kernel::Cpu& cpu) {
  require(asked.repeats > 0, "something is measured");
  GpuTrainingMeasurement measured;
  measured.sequences = asked.sequences, measured.time = asked.time;
  {
    const Gpu gpu(gpu_index);
    measured.device = gpu.properties().name;
    measured.product_flops_per_second = kernel::measure_limits(gpu).product_flops_per_second;
  }
  const auto model = asked.model(true, cpu);
  const TrainableDescription what = model->description();
  measured.title = what.title;
  measured.product_flops = product_flops(model->layout());  // SANE's are not counted
  measured.recurrence_flops = what.recurrence_flops;
  const gpu::BenchCase one{random_tokens(what.vocabulary, asked.sequences, asked.time),
                           asked.activations, precision, asked.repeats, gpu_index};
  if (precision == Precision::bf16)
    gpu::measure<bf16>(one, *model, measured);
  else
    gpu::measure<float>(one, *model, measured);
  return measured;
}

}  // namespace deltasane::train
