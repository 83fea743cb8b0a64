#include "train/gpu/gpu_bench.h"

#include "kernel/gpu_limits.h"
#include "model/random_rwkv7.h"
#include "train/bench.h"
#include "train/gpu/gpu_device.h"

namespace deltasane::train {
namespace gpu {
namespace {

constexpr int turns = 3;  // of a model without SANE and one with it

// What every model is measured with.
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

// The steps of one turn; seconds are added to what was measured before.
template <class Real>
void measure_turn(const BenchCase& one, const Parameters& model, std::vector<double>& seconds,
                  GpuStepMeasurement& measured) {
  GpuTrainingDevice<Real> device(one.job(model), one.gpu_index);
  one_step(device, one.batch);  // products choose their algorithms, and scratch memory grows
  std::vector<GpuEvent> marks(size_t(one.repeats) + 1);
  marks[0].record(device.gpu());
  for (size_t i = 1; i < marks.size(); ++i) {
    one_step(device, one.batch);
    marks[i].record(device.gpu());
  }
  device.gpu().wait();
  for (size_t i = 1; i < marks.size(); ++i)
    seconds.push_back(marks[i].milliseconds_since(marks[i - 1]) / 1e3);
  device.clock().start();
  one_step(device, one.batch);
  measured.milliseconds = device.clock().stop(device.gpu());
  measured.activation_bytes = device.activation_bytes();
}

// What an update with Muon takes.
template <class Real>
double muon_seconds(const BenchCase& one, const Parameters& model) {
  GpuTrainingDevice<Real> device(one.job(model, OptimizerKind::muon), one.gpu_index);
  std::vector<double> seconds;
  for (int i = 0; i < 4; ++i) {
    device.gradient({&one.batch, 1}, {one.batch.weight_total(), 0}, [] {});
    device.clip("bench: ");
    GpuEvent began, ended;
    began.record(device.gpu());
    device.update(1e-6);
    ended.record(device.gpu());
    ended.wait();
    if (i > 0) seconds.push_back(ended.milliseconds_since(began) / 1e3);
  }
  return timing_of(seconds).median;
}

template <class Real>
void measure(const BenchCase& one, const Parameters& plain, const Parameters& sane,
             GpuTrainingMeasurement& measured) {
  std::vector<double> without, with;
  for (int turn = 0; turn < turns; ++turn) {
    measure_turn<Real>(one, plain, without, measured.baseline);
    measure_turn<Real>(one, sane, with, measured.sane);
  }
  measured.baseline.seconds = timing_of(without), measured.sane.seconds = timing_of(with);
  measured.muon_seconds = muon_seconds<Real>(one, sane);
}

}  // namespace
}  // namespace gpu

GpuTrainingMeasurement bench_gpu_training(const Rwkv7Shape& shape, int64_t sequences, int64_t time,
                                          int repeats, Activations activations, Precision precision,
                                          int gpu_index) {
  require(repeats > 0, "something is measured");
  GpuTrainingMeasurement measured;
  measured.shape = shape, measured.sequences = sequences, measured.time = time;
  {
    const Gpu gpu(gpu_index);
    measured.device = gpu.facts().name;
    measured.product_flops_per_second = kernel::measure_limits(gpu).product_flops_per_second;
  }
  Rwkv7Shape with_sane = shape;
  with_sane.sane = true;
  const Parameters plain(RandomRwkv7(shape, 1), std::nullopt);
  const Parameters sane(RandomRwkv7(with_sane, 1), SaneSettings{3, 16});
  measured.product_flops = product_flops(plain.layout());
  measured.recurrence_flops = recurrence_flops(plain.layout());
  const gpu::BenchCase one{random_tokens(shape, sequences, time), activations, precision, repeats,
                           gpu_index};
  if (precision == Precision::bf16)
    gpu::measure<bf16>(one, plain, sane, measured);
  else
    gpu::measure<float>(one, plain, sane, measured);
  return measured;
}

}  // namespace deltasane::train
