#include "kernel/delta_rule/gated_cuda/gated_rule.h"

#include <algorithm>

#include "base/error.h"
#include "kernel/delta_rule/gated_cuda/passes.h"

namespace deltasane::kernel::cuda {
namespace {

void validate(const GatedRule& op) {
  require(op.batch > 0 && op.time > 0 && op.key_heads > 0 && op.heads > 0,
          "gated_rule: expected at least one token");
  require(op.heads % op.key_heads == 0,
          "gated_rule: expected a multiple of the key heads as heads");
  require(op.rule != Rule::generalized, "gated_rule: expected another rule than generalized");
  require(op.r && op.k && op.v && op.beta && bool(op.g) == (op.rule != Rule::deltanet),
          "gated_rule: expected all inputs of the rule");
  if (op.values <= 0 || op.values % tile_size != 0)
    fail(Fault::argument, "value channels per head: expected a multiple of 16, found ", op.values);
}

// Parts of a workspace, on lines of the cache.
class Workspace {
 public:
  template <class T>
  int64_t add(int64_t count) {
    const int64_t at = bytes_;
    bytes_ += (count * int64_t(sizeof(T)) + 127) / 128 * 128;
    return at;
  }
  int64_t floats() const { return bytes_ / int64_t(sizeof(float)); }

 private:
  int64_t bytes_ = 0;
};
template <class T>
T* at(float* memory, int64_t byte) {
  return reinterpret_cast<T*>(reinterpret_cast<char*>(memory) + byte);
}

// What forward saves.
struct SavedParts {
  Workspace all;
  int64_t upper, lower, missing;
  explicit SavedParts(const GatedRule& op) {
    const int64_t heads = op.batch * op.heads, tiles = tile_count(op);
    const int64_t states = heads * (tiles + 1) * op.values * op.keys;
    upper = all.add<bf16>(states), lower = all.add<bf16>(states);
    missing = all.add<bf16>(heads * tiles * 2 * tile_size * op.values);
  }
  void give(GatedPass& pass, float* memory) const {
    pass.state_upper = at<bf16>(memory, upper), pass.state_lower = at<bf16>(memory, lower);
    pass.missing = at<bf16>(memory, missing);
  }
};

// What backward needs beside it.
struct BackwardParts {
  Workspace all;
  int64_t terms, dstate, dvalues, parts, saved;
  explicit BackwardParts(const GatedRule& op) {
    const int64_t heads = op.batch * op.heads, tiles = tile_count(op);
    terms = all.add<char>(gated_terms_bytes(op));
    dstate = all.add<bf16>(heads * tiles * op.values * op.keys);
    dvalues = all.add<bf16>(heads * tiles * 2 * tile_size * op.values);
    parts = all.add<float>(heads * tiles * op.values / 16);
    saved = all.add<float>(op.states ? 0 : SavedParts(op).all.floats());
  }
};

// Few heads leave most of a GPU idle while the state goes from tile to tile: meanwhile a second
// stream makes the terms of the next segment.
void forward_in_segments(const GatedRule& op, PassStream& second, DeltaRuleScratch& scratch,
                         const Gpu& gpu) {
  GatedRule segment = op;
  segment.time = op.segment;
  Workspace all;
  const int64_t terms[] = {all.add<char>(gated_terms_bytes(segment)),
                           all.add<char>(gated_terms_bytes(segment))};
  const int64_t state = all.add<float>(op.heads * op.values * op.keys);
  float* const memory = scratch.floats(gpu, all.floats());
  float* const carried = op.final_state ? op.final_state : at<float>(memory, state);
  second.begun.record(gpu);
  second.begun.stream_wait(second.gpu.stream());
  const int64_t offset = op.position % tile_size;
  const auto pass_of = [&](int64_t i) {
    const int64_t from = std::max<int64_t>(0, i * op.segment - offset);
    GatedPass pass;
    pass.op = tokens_of(op, from, std::min((i + 1) * op.segment - offset, op.time) - from);
    if (i > 0) pass.op.initial = carried;
    pass.op.final_state = carried;
    pass.terms = at<char>(memory, terms[i % 2]);
    return pass;
  };
  const int64_t count = (offset + op.time + op.segment - 1) / op.segment;
  const auto make_terms = [&](int64_t i) {
    if (i >= count) return;
    if (i >= 2) second.used[i % 2].stream_wait(second.gpu.stream());
    gated_terms(pass_of(i), TermsFor::forward, second.gpu);
    second.ready[i % 2].record(second.gpu);
  };
  make_terms(0);
  for (int64_t i = 0; i < count; ++i) {
    make_terms(i + 1);
    second.ready[i % 2].stream_wait(gpu.stream());
    gated_state_forward(pass_of(i), gpu);
    second.used[i % 2].record(gpu);
  }
}

}  // namespace

GatedRule tokens_of(GatedRule op, int64_t from, int64_t count) {
  op.r += from * op.key_heads * op.keys, op.k += from * op.key_heads * op.keys;
  op.v += from * op.heads * op.values, op.y += from * op.heads * op.values;
  if (op.g) op.g += from * op.heads * (op.rule == Rule::kda ? op.keys : 1);
  op.beta += from * op.heads;
  if (op.tau) op.tau += (op.position % tile_size + from) / tile_size * op.heads;
  op.time = count, op.position += from;
  return op;
}

int64_t gated_rule_scratch(const GatedRule& op) { return BackwardParts(op).all.floats(); }

int64_t gated_rule_states(const GatedRule& op) { return SavedParts(op).all.floats(); }

void gated_rule(const GatedRule& op, DeltaRuleScratch& scratch, const Gpu& gpu) {
  validate(op);
  require(op.y, "gated_rule: expected y");
  if (op.time == 1 && !op.states) return gated_token_forward(op, gpu);
  if (op.batch == 1 && !op.states && !op.lengths && op.time >= 2 * op.segment &&
      !many_heads(op, gpu))
    if (PassStream* const second = scratch.second_stream(gpu))
      return forward_in_segments(op, *second, scratch, gpu);
  GatedPass pass;
  pass.op = op;
  pass.terms = scratch.floats(gpu, gated_terms_bytes(op) / int64_t(sizeof(float)));
  if (op.states) SavedParts(op).give(pass, op.states);
  gated_terms(pass, TermsFor::forward, gpu);
  gated_state_forward(pass, gpu);
}

void gated_rule_backward(const GatedRule& op, const GatedRuleGradient& gradient,
                         DeltaRuleScratch& scratch, const Gpu& gpu) {
  validate(op);
  require(gradient.dy && gradient.dr && gradient.dk && gradient.dv && gradient.dbeta &&
              (!op.g || gradient.dg) && (!op.tau || gradient.dtau),
          "gated_rule_backward: expected all gradients");
  if (op.values % 32 != 0)
    fail(Fault::argument,
         "value channels per head: expected a multiple of 32 for gradients, found ", op.values);
  const BackwardParts of(op);
  float* const memory = scratch.floats(gpu, of.all.floats());
  GatedPass pass;
  pass.op = op, pass.gradient = gradient;
  pass.op.y = nullptr, pass.op.final_state = nullptr;
  pass.terms = at<char>(memory, of.terms);
  pass.dstate = at<bf16>(memory, of.dstate), pass.dvalues = at<bf16>(memory, of.dvalues);
  pass.dtau_parts = at<float>(memory, of.parts);
  SavedParts(op).give(pass, op.states ? op.states : at<float>(memory, of.saved));
  gated_terms(pass, TermsFor::backward, gpu);
  if (!op.states) gated_state_forward(pass, gpu);
  gated_state_backward(pass, gpu);
  gated_input_backward(pass, gpu);
}

}  // namespace deltasane::kernel::cuda
