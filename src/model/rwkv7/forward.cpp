#include "model/cpu/forward_passes.h"
#include "model/rwkv7/gpu/model.h"
#include "model/rwkv7/model.h"
#include "model/rwkv7/pass.h"

namespace deltasane {

using kernel::Cpu;

void Rwkv7::run_rows(const Rows& rows, std::span<const int32_t> tokens, Logits wanted,
                     View<float> logits, const Cpu& cpu) const {
  if (rows.count() == 0) return;
  Scratch s(shape_, rows.count());
  embed(tokens, s.x, cpu);
  if (rows.time == 1 && rows.count() <= kernel::matmul_few_tokens) {
    ThreadPool alone(1);
    cpu.threads.parallel_region([&](Team& team) {
      Scratch own(shape_, rows.count());
      Pass pass(rows, s, own, {alone, cpu.isa}, team);
      run_layers(pass, wanted, logits);
    });
  } else {
    Pass pass(rows, s, cpu);
    run_layers(pass, wanted, logits);
  }
  for (size_t i = 0; i < rows.sequences(); ++i) rows.state(i).position += rows.time;
}

Tensor<float> Rwkv7::allocate_logits(int64_t rows) const {
  return gpu_ ? gpu_->allocate_logits(rows) : LanguageModel::allocate_logits(rows);
}

void Rwkv7::run_beside(std::span<const SequenceInput> batch, const Cpu& cpu,
                       const Beside& beside) const {
  if (gpu_) return gpu_->run(batch, cpu, beside);
  beside();
  run(batch, cpu);
}

void Rwkv7::run(std::span<const SequenceInput> batch, const Cpu& cpu) const {
  if (gpu_) return gpu_->run(batch, cpu, [] {});
  run_in_passes(*this, batch, cpu, [&](const ForwardPass& pass) {
    run_rows({pass.states, pass.time, pass.taus}, pass.tokens, pass.wanted, pass.logits, cpu);
  });
}

}  // namespace deltasane
