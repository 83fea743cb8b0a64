#include "train/gpu/gpu_bench.h"

#include <algorithm>

#include "kernel/gpu_limits.h"
#include "model/random_rwkv7.h"
#include "train/bench.h"
#include "train/gpu/gpu_device.h"

namespace deltasane::train {
namespace gpu {
namespace {

constexpr int turns = 3;  // of a model without SANE and one with it

Timing timing_of(std::vector<double> seconds) {
  std::ranges::sort(seconds);
  return {seconds[seconds.size() / 2], seconds.front(), seconds.back(), int(seconds.size())};
}

void one_step(TrainingDevice& device, const Batch& batch) {
  device.gradient({&batch, 1}, {batch.weight_total(), 0}, [] {});
  device.clip(1, "bench: ");
  device.update(1e-6);
}

// The steps of one turn; seconds are added to what was measured before.
template <class Real>
void measure_turn(const TrainingJob& job, const Batch& batch, int repeats, int gpu_index,
                  std::vector<double>& seconds, GpuStepMeasurement& measured) {
  GpuTrainingDevice<Real> device(job, gpu_index);
  one_step(device, batch);  // products choose their algorithms, and scratch memory grows
  std::vector<GpuEvent> marks(size_t(repeats) + 1);
  marks[0].record(device.gpu());
  for (size_t i = 1; i < marks.size(); ++i) {
    one_step(device, batch);
    marks[i].record(device.gpu());
  }
  device.gpu().wait();
  for (size_t i = 1; i < marks.size(); ++i)
    seconds.push_back(marks[i].milliseconds_since(marks[i - 1]) / 1e3);
  device.clock().start();
  one_step(device, batch);
  measured.milliseconds = device.clock().stop(device.gpu());
  measured.activation_bytes = device.activation_bytes();
}

// What an update with Muon takes.
template <class Real>
double muon_seconds(TrainingJob job, const Batch& batch, int gpu_index) {
  job.optimizer.kind = OptimizerKind::muon;
  GpuTrainingDevice<Real> device(std::move(job), gpu_index);
  std::vector<double> seconds;
  for (int i = 0; i < 4; ++i) {
    device.gradient({&batch, 1}, {batch.weight_total(), 0}, [] {});
    device.clip(1, "bench: ");
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
void measure(const TrainingJob& plain, const TrainingJob& sane, int repeats, int gpu_index,
             GpuTrainingMeasurement& measured) {
  const Batch batch = random_tokens(measured.shape, measured.sequences, measured.time);
  std::vector<double> without, with;
  for (int turn = 0; turn < turns; ++turn) {
    measure_turn<Real>(plain, batch, repeats, gpu_index, without, measured.baseline);
    measure_turn<Real>(sane, batch, repeats, gpu_index, with, measured.sane);
  }
  measured.baseline.seconds = timing_of(without), measured.sane.seconds = timing_of(with);
  measured.muon_seconds = muon_seconds<Real>(sane, batch, gpu_index);
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
    measured.product_flops_per_second = 0;
  }
  Rwkv7Shape with_sane = shape;
  with_sane.sane = true;
  const SaneSettings settings{3, 16};
  const TrainingJob plain{Parameters(RandomRwkv7(shape, 1), std::nullopt), {}, sequences, time,
                          activations, precision};
  const TrainingJob sane{Parameters(RandomRwkv7(with_sane, 1), settings), {}, sequences, time,
                         activations, precision};
  measured.product_flops = product_flops(plain.parameters.layout());
  measured.recurrence_flops = recurrence_flops(plain.parameters.layout());
  if (precision == Precision::bf16)
    gpu::measure<bf16>(plain, sane, repeats, gpu_index, measured);
  else
    gpu::measure<float>(plain, sane, repeats, gpu_index, measured);
  return measured;
}

}  // namespace deltasane::train
