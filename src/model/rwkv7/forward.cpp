#include <algorithm>

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
  if (rows.time == 1 && rows.count() <= kernel::matmul_few_tokens) {
    embed(tokens, s.x, cpu);
    ThreadPool alone(1);
    cpu.threads.parallel_region([&](Team& team) {
      Scratch own(shape_, rows.count());
      Pass pass(rows, s, own, {alone, cpu.isa}, team);
      run_layers(pass, wanted, logits);
    });
  } else {
    Pass pass(rows, s, cpu, heads_apart(rows.count(), cpu) ? shape_.head_size : 0);
    if (pass.heads_apart()) {
      embed(tokens, s.u, cpu);
      pass.apart_rows(s.u, s.x);
    } else {
      embed(tokens, s.x, cpu);
    }
    run_layers(pass, wanted, logits);
  }
  for (size_t i = 0; i < rows.sequences(); ++i) rows.state(i).position += rows.time;
}

// Where tiles write them so.
bool Rwkv7::heads_apart(int64_t rows, const Cpu& cpu) const {
  const auto in_columns = [&](const kernel::Weights& w) {
    return kernel::multiplies_in_columns(w, rows, cpu.isa);
  };
  return shape_.head_size % 32 == 0 && !cpu.inputs &&
         std::all_of(layers_.begin(), layers_.end(), [&](const Layer& layer) {
           return in_columns(layer.receptance) && in_columns(layer.key) &&
                  in_columns(layer.value) && in_columns(layer.output) &&
                  in_columns(layer.ffn_value) && in_columns(layer.w.up) && in_columns(layer.a.up) &&
                  in_columns(layer.g.up) && (!layer.v || in_columns(layer.v->up));
         });
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
  BufferPool buffers;
  Cpu of_pass = cpu;
  if (!of_pass.buffers) of_pass.buffers = &buffers;
  run_in_passes(*this, batch, cpu, [&](const ForwardPass& pass) {
    run_rows({pass.states, pass.time, pass.taus}, pass.tokens, pass.wanted, pass.logits, of_pass);
  });
}

}  // namespace deltasane
