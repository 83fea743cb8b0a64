#include "kernel/delta_rule/gated_cuda/gated_rule.h"

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

// The terms, and how far they are.
struct TermsParts {
  Workspace all;
  int64_t terms, progress;
  explicit TermsParts(const GatedRule& op) {
    terms = all.add<char>(gated_terms_bytes(op));
    progress = all.add<uint32_t>(TileProgress::words(op.batch * op.heads * tile_count(op)));
  }
  void give(GatedPass& pass, float* memory, bool beside) const {
    pass.terms = at<char>(memory, terms);
    if (beside) pass.progress = TileProgress(at<uint32_t>(memory, progress));
  }
};

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
    terms = all.add<float>(TermsParts(op).all.floats());
    dstate = all.add<bf16>(heads * tiles * op.values * op.keys);
    dvalues = all.add<bf16>(heads * tiles * 2 * tile_size * op.values);
    parts = all.add<float>(heads * tiles * op.values / 16);
    saved = all.add<float>(op.states ? 0 : SavedParts(op).all.floats());
  }
};

}  // namespace

int64_t gated_rule_scratch(const GatedRule& op) { return BackwardParts(op).all.floats(); }

int64_t gated_rule_states(const GatedRule& op) { return SavedParts(op).all.floats(); }

void gated_rule(const GatedRule& op, DeltaRuleScratch& scratch, const Gpu& gpu) {
  validate(op);
  require(op.y, "gated_rule: expected y");
  if (op.time == 1 && !op.states) return gated_token_forward(op, gpu);
  GatedPass pass;
  pass.op = op;
  const TermsParts parts(op);
  parts.give(pass, scratch.floats(gpu, parts.all.floats()), gated_terms_beside(op, gpu));
  if (op.states) SavedParts(op).give(pass, op.states);
  gated_terms(pass, op.states ? TermsFor::saving : TermsFor::forward, gpu);
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
  // Backward begins with the last tile, whose terms are made last.
  TermsParts(op).give(pass, at<float>(memory, of.terms), !op.states && gated_terms_beside(op, gpu));
  pass.dstate = at<bf16>(memory, of.dstate), pass.dvalues = at<bf16>(memory, of.dvalues);
  pass.dtau_parts = at<float>(memory, of.parts);
  SavedParts(op).give(pass, op.states ? op.states : at<float>(memory, of.saved));
  gated_terms(pass, TermsFor::backward, gpu);
  if (!op.states) gated_state_forward(pass, gpu);
  gated_state_backward(pass, gpu);
  gated_input_backward(pass, gpu);
}

}  // namespace deltasane::kernel::cuda
