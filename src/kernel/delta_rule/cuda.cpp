#include "kernel/delta_rule/cuda.h"

#include <algorithm>

#include "base/error.h"
#include "kernel/delta_rule/cuda_parts.h"

namespace deltasane::kernel::cuda {
namespace {

constexpr int64_t tile = 16;

template <class Real>
bool starts_tiles(const DeltaRule<Real>& op) {
  return op.chunk == tile && op.position % tile == 0;
}

template <class Real>
void validate(const DeltaRule<Real>& op) {
  require(op.batch > 0 && op.time > 0 && op.heads > 0 && op.chunk > 0, "delta_rule has tokens");
  require(op.r && op.k && op.v && op.a && op.b && op.w, "delta_rule has all its inputs");
  require(!op.states || starts_tiles(op), "states are kept from a chunk's beginning");
}

// So few heads that most of the chip would wait for the sequence.
bool few_heads(int64_t heads, const Gpu& gpu) { return 4 * heads <= gpu.facts().multiprocessors; }

// Whether what does not depend on the state is found for many tiles at once. Where states are
// kept, the last one of an incomplete tile is for the chain to keep.
template <class Real>
bool takes_chunks(const DeltaRule<Real>& op, bool keeps_states, const Gpu& gpu) {
  return few_heads(op.batch * op.heads, gpu) && op.time / tile >= 4 &&
         (!keeps_states || op.time % tile == 0) &&
         chunk_pass_shared<Real>() <= gpu.facts().shared_bytes;
}
template <class Real>
bool chain_fits(const Gpu& gpu) {
  return chain_pass_shared<Real>() <= gpu.facts().shared_bytes;
}
template <class Real>
void expect_chain_fits(const Gpu& gpu) {
  if (!chain_fits<Real>(gpu))
    fail(Fault::device, "the recurrence's way back on cuda:", gpu.index(), " (", gpu.facts().name,
         "): expected ", chain_pass_shared<Real>() >> 10, " KiB of shared memory a block, found ",
         gpu.facts().shared_bytes >> 10,
         " KiB; such a GPU reads and writes text, but trains on --device cpu only");
}

}  // namespace

float* DeltaRuleScratch::floats(const Gpu& gpu, int64_t count) {
  if (memory_.elements() < count) {
    gpu.wait();  // what is there may be in use
    memory_ = GpuTensor<float>();
    memory_ = GpuTensor<float>(gpu, {count}, "the recurrence's states");
  }
  return memory_.data();
}

int64_t delta_rule_states(int64_t batch, int64_t time, int64_t heads) {
  constexpr int64_t line = 32;  // what lies behind them begins with one
  const int64_t states = batch * heads * ((time + tile - 1) / tile + 1);
  return (states * kept_state_numbers + line - 1) / line * line;
}

template <class Real>
void delta_rule(const DeltaRule<Real>& op, DeltaRuleScratch& scratch, const Gpu& gpu) {
  validate(op);
  require(op.y, "delta_rule has a result");
  const int64_t heads = op.batch * op.heads, tiles = op.time / tile;
  if (op.states) expect_chain_fits<Real>(gpu);
  const bool in_chunks = starts_tiles(op) && takes_chunks(op, op.states, gpu);
  if (starts_tiles(op) && !in_chunks && chain_fits<Real>(gpu))
    return chain_pass(ChainPass<Real>{op, op.states}, gpu);
  TokenPass<Real> pass{op, 0, op.time, op.initial, op.final_state};
  if (in_chunks) {
    const int64_t terms = chunk_pass_floats<Real>(op.batch, op.heads, tiles);
    float* const memory = scratch.floats(gpu, terms + heads * state_entries);
    float* const between = op.time % tile ? memory + terms : op.final_state;
    chunk_pass(op, tiles, memory, between, gpu);
    pass.from = tiles * tile, pass.count = op.time - pass.from, pass.initial = between;
  }
  if (pass.count) token_pass(pass, gpu);
}

template <class Real>
void delta_rule_backward(const DeltaRule<Real>& op, const DeltaRuleGradient<Real>& gradient,
                         DeltaRuleScratch& scratch, const Gpu& gpu) {
  validate(op);
  require(starts_tiles(op), "the way back starts at a chunk's beginning");
  require(gradient.dy && gradient.dr && gradient.dk && gradient.dv && gradient.da && gradient.db &&
              gradient.dw && (!op.tau || gradient.dtau),
          "delta_rule_backward has all its gradients");
  expect_chain_fits<Real>(gpu);
  const int64_t heads = op.batch * op.heads, tiles = (op.time + tile - 1) / tile;
  const int64_t made = op.states ? 0 : delta_rule_states(op.batch, op.time, op.heads);
  const int64_t planes = heads * tiles * kept_gradient_numbers<Real> / 2;  // of 2 bytes
  const int64_t parts = blocks_share_heads<Real>(heads, gpu) ? heads * tiles * 4 : 0;
  const bool in_chunks = made && takes_chunks(op, true, gpu);
  const int64_t terms = in_chunks ? chunk_pass_floats<Real>(op.batch, op.heads, tiles) : 0;
  float* const memory = scratch.floats(gpu, made + std::max(planes + parts, terms));
  if (!op.states) {
    DeltaRule<Real> forward = op;
    forward.states = memory, forward.y = nullptr, forward.final_state = nullptr;
    if (in_chunks)
      chunk_pass(forward, tiles, memory + made, nullptr, gpu);
    else
      chain_pass(ChainPass<Real>{forward, memory}, gpu);
  }
  const ReversePass<Real> reverse{op, gradient, op.states ? op.states : memory,
                                  reinterpret_cast<bf16*>(memory + made),
                                  parts ? memory + made + planes : nullptr};
  reverse_pass(reverse, gpu);
  tile_gradients(reverse, gpu);
}

template void delta_rule(const DeltaRule<float>&, DeltaRuleScratch&, const Gpu&);
template void delta_rule(const DeltaRule<bf16>&, DeltaRuleScratch&, const Gpu&);
template void delta_rule_backward(const DeltaRule<float>&, const DeltaRuleGradient<float>&,
                                  DeltaRuleScratch&, const Gpu&);
template void delta_rule_backward(const DeltaRule<bf16>&, const DeltaRuleGradient<bf16>&,
                                  DeltaRuleScratch&, const Gpu&);

}  // namespace deltasane::kernel::cuda
