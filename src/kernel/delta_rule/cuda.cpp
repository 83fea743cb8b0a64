#include "kernel/delta_rule/cuda.h"

#include <algorithm>

#include "base/error.h"
#include "kernel/delta_rule/cuda/passes.h"

namespace deltasane::kernel::cuda {
namespace {

constexpr int64_t tile = 16;

template <class Real>
bool starts_tiles(const DeltaRule<Real>& op) {
  return op.chunk == tile && op.position % tile == 0;
}

template <class Real>
void validate(const DeltaRule<Real>& op) {
  require(op.batch > 0 && op.time > 0 && op.heads > 0 && op.chunk > 0,
          "delta_rule: expected at least one token");
  require(op.r && op.k && op.v && op.a && op.b && op.w, "delta_rule: expected all inputs");
  require(!op.states || starts_tiles(op),
          "delta_rule: states are saved from the beginning of a chunk of 16");
  require(!op.lengths || (starts_tiles(op) && !op.states),
          "delta_rule: lengths are for forward, from the beginning of a chunk of 16");
}

// So few heads that with a block per head most multiprocessors would be idle.
bool few_heads(int64_t heads, const Gpu& gpu) {
  return 4 * heads <= gpu.properties().multiprocessors;
}

// Whether few_heads_forward is used. Where states are saved, it cannot save that after an
// incomplete last tile.
template <class Real>
bool uses_few_heads_forward(const DeltaRule<Real>& op, bool saves_states, const Gpu& gpu) {
  return few_heads(op.batch * op.heads, gpu) && op.time / tile >= 4 &&
         (!saves_states || op.time % tile == 0) &&
         few_heads_shared_bytes<Real>() <= gpu.properties().shared_bytes;
}
// All passes fit where this one does: what GPUs since compute capability 8.0 have for a block.
template <class Real>
void expect_tile_forward_fits(const Gpu& gpu) {
  if (tile_forward_shared_bytes<Real>() > gpu.properties().shared_bytes)
    fail(Fault::device, "delta_rule on cuda:", gpu.index(), " (", gpu.properties().name,
         "): expected ", tile_forward_shared_bytes<Real>() >> 10,
         " KiB of shared memory a block, found ", gpu.properties().shared_bytes >> 10,
         " KiB; use a CPU or another GPU");
}

}  // namespace

float* DeltaRuleScratch::floats(const Gpu& gpu, int64_t count) {
  if (allocate_) return allocate_(count);
  if (memory_.elements() < count) {
    gpu.wait();  // what is there may be in use
    memory_ = GpuTensor<float>();
    memory_ = GpuTensor<float>(gpu, {count}, "the workspace of the delta rule");
  }
  return memory_.data();
}

int64_t delta_rule_states(int64_t batch, int64_t time, int64_t heads) {
  constexpr int64_t line = 32;  // what follows them starts on a cache line of 32 floats
  const int64_t states = batch * heads * ((time + tile - 1) / tile + 1);
  return (states * saved_state_floats + line - 1) / line * line;
}

template <class Real>
void delta_rule(const DeltaRule<Real>& op, DeltaRuleScratch& scratch, const Gpu& gpu) {
  validate(op);
  require(op.y, "delta_rule: expected y");
  const int64_t heads = op.batch * op.heads, tiles = op.time / tile;
  const bool few_heads_path =
      starts_tiles(op) && !op.lengths && uses_few_heads_forward(op, op.states, gpu);
  if (starts_tiles(op) && !few_heads_path) {
    expect_tile_forward_fits<Real>(gpu);
    return tile_forward(TileForward<Real>{op, op.states}, gpu);
  }
  TokenForward<Real> pass{op, 0, op.time, op.initial, op.final_state};
  if (few_heads_path) {
    const int64_t terms = few_heads_scratch_floats<Real>(op.batch, op.heads, tiles);
    float* const memory = scratch.floats(gpu, terms + heads * state_entries);
    float* const between = op.time % tile ? memory + terms : op.final_state;
    few_heads_forward(op, tiles, memory, between, gpu);
    pass.from = tiles * tile, pass.count = op.time - pass.from, pass.initial = between;
  }
  if (pass.count) token_forward(pass, gpu);
}

template <class Real>
void delta_rule_backward(const DeltaRule<Real>& op, const DeltaRuleGradient<Real>& gradient,
                         DeltaRuleScratch& scratch, const Gpu& gpu) {
  validate(op);
  require(starts_tiles(op), "delta_rule_backward: expected positions that start a chunk of 16");
  require(gradient.dy && gradient.dr && gradient.dk && gradient.dv && gradient.da && gradient.db &&
              gradient.dw && (!op.tau || gradient.dtau),
          "delta_rule_backward: expected all gradients");
  expect_tile_forward_fits<Real>(gpu);
  const int64_t heads = op.batch * op.heads, tiles = (op.time + tile - 1) / tile;
  const int64_t saved = op.states ? 0 : delta_rule_states(op.batch, op.time, op.heads);
  const int64_t planes = heads * tiles * saved_gradient_elements<Real> / 2;  // of 2 bytes
  const int64_t parts = blocks_share_heads<Real>(heads, gpu) ? heads * tiles * 4 : 0;
  const bool few_heads_path = saved && uses_few_heads_forward(op, true, gpu);
  const int64_t terms =
      few_heads_path ? few_heads_scratch_floats<Real>(op.batch, op.heads, tiles) : 0;
  float* const memory = scratch.floats(gpu, saved + std::max(planes + parts, terms));
  if (!op.states) {
    DeltaRule<Real> forward = op;
    forward.states = memory, forward.y = nullptr, forward.final_state = nullptr;
    if (few_heads_path)
      few_heads_forward(forward, tiles, memory + saved, nullptr, gpu);
    else
      tile_forward(TileForward<Real>{forward, memory}, gpu);
  }
  const BackwardPass<Real> pass{op, gradient, op.states ? op.states : memory,
                                reinterpret_cast<bf16*>(memory + saved),
                                parts ? memory + saved + planes : nullptr};
  state_backward(pass, gpu);
  input_backward(pass, gpu);
}

template void delta_rule(const DeltaRule<float>&, DeltaRuleScratch&, const Gpu&);
template void delta_rule(const DeltaRule<bf16>&, DeltaRuleScratch&, const Gpu&);
template void delta_rule_backward(const DeltaRule<float>&, const DeltaRuleGradient<float>&,
                                  DeltaRuleScratch&, const Gpu&);
template void delta_rule_backward(const DeltaRule<bf16>&, const DeltaRuleGradient<bf16>&,
                                  DeltaRuleScratch&, const Gpu&);

}  // namespace deltasane::kernel::cuda
