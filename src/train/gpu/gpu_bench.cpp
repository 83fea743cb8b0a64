#include "train/gpu/gpu_bench.h"

#include "kernel/gpu_limits.h"
#include "train/gpu/gpu_device.h"

namespace deltasane::train {
namespace gpu {
namespace {

// What is measured, with every kind of step.
struct BenchCase {
  Batch batch;
  Activations activations;
  Precision precision;
  int repeats, gpu_index;

  TrainingJob job(const Parameters& model, OptimizerKind kind = OptimizerKind::adamw) const {
    OptimizerSettings optimizer;
    optimizer.kind = kind;
    return {Parameters(model, model.sane()),
            optimizer,
            1,
            batch.sequences,
            batch.time,
            activations,
            precision};
  }
};

void one_step(TrainingDevice& device, const Batch& batch) {
  device.gradient({&batch, 1}, {batch.weight_total(), 0}, [] {});
  device.clip("bench: ");
  device.update(1e-6);
}

template <class Real>
double seconds_of_step(GpuTrainingDevice<Real>& device, const Batch& batch) {
  GpuEvent began, ended;
  began.record(device.gpu());
  one_step(device, batch);
  ended.record(device.gpu());
  ended.wait();
  return ended.milliseconds_since(began) / 1e3;
}

template <class Real>
void measure_steps(const BenchCase& one, const Parameters& model,
                   GpuTrainingMeasurement& measured) {
  GpuTrainingDevice<Real> device(one.job(model), one.gpu_index);
  measured.activation_bytes = device.activation_bytes();
  // Products choose their algorithms, those with results of 0 after the first update, and memory
  // grows.
  for (const bool sane : {false, true, false, true}) {
    device.neutralize(sane);
    one_step(device, one.batch);
  }
  std::vector<double> seconds[2], more;
  for (int pair = 0; pair < one.repeats; ++pair) {
    for (const bool second : {false, true}) {
      const bool sane = second != (pair % 2 == 1);
      device.neutralize(sane);
      seconds[sane].push_back(seconds_of_step(device, one.batch));
    }
    more.push_back(seconds[true].back() - seconds[false].back());
  }
  measured.sane_cost = median_interval(more);
  for (const bool sane : {false, true}) {
    GpuStepMeasurement& step = sane ? measured.sane : measured.baseline;
    step.seconds = timing_of(seconds[sane]);
    device.neutralize(sane);
    device.clock().start();
    one_step(device, one.batch);
    step.milliseconds = device.clock().stop(device.gpu());
  }
}

// What an update with Muon takes.
template <class Real>
double muon_seconds(const BenchCase& one, const Parameters& model) {
  GpuTrainingDevice<Real> device(one.job(model, OptimizerKind::muon), one.gpu_index);
  constexpr int unmeasured = 4;  // products choose their algorithms
  std::vector<double> seconds;
  for (int i = 0; i < unmeasured + 3; ++i) {
    device.gradient({&one.batch, 1}, {one.batch.weight_total(), 0}, [] {});
    device.clip("bench: ");
    GpuEvent began, ended;
    began.record(device.gpu());
    device.update(1e-6);
    ended.record(device.gpu());
    ended.wait();
    if (i >= unmeasured) seconds.push_back(ended.milliseconds_since(began) / 1e3);
  }
  return timing_of(seconds).median;
}

template <class Real>
void measure(const BenchCase& one, const Parameters& model, GpuTrainingMeasurement& measured) {
  measure_steps<Real>(one, model, measured);
  measured.muon_seconds = muon_seconds<Real>(one, model);
}

}  // namespace
}  // namespace gpu

GpuTrainingMeasurement bench_gpu_training(const TrainingBench& asked, Precision precision,
                                          int gpu_index, const kernel::Cpu& cpu) {
  require(asked.repeats > 0, "something is measured");
  GpuTrainingMeasurement measured;
  measured.shape = asked.shape, measured.sequences = asked.sequences, measured.time = asked.time;
  {
    const Gpu gpu(gpu_index);
    measured.device = gpu.facts().name;
    measured.product_flops_per_second = kernel::measure_limits(gpu).product_flops_per_second;
  }
  const Parameters model = bench_parameters(asked.shape, asked.weights, true, cpu);
  const ParameterLayout plain(asked.shape);  // what SANE's products take is not counted
  measured.product_flops = product_flops(plain);
  measured.recurrence_flops = recurrence_flops(plain);
  const gpu::BenchCase one{random_tokens(asked.shape, asked.sequences, asked.time),
                           asked.activations, precision, asked.repeats, gpu_index};
  if (precision == Precision::bf16)
    gpu::measure<bf16>(one, model, measured);
  else
    gpu::measure<float>(one, model, measured);
  return measured;
}

}  // namespace deltasane::train
