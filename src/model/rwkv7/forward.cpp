#include "model/log_probability.h"
#include "model/rwkv7/gpu/model.h"
#include "model/rwkv7/model.h"
#include "model/rwkv7/pass.h"

namespace deltasane {

using kernel::Cpu;

namespace {

constexpr int64_t block_tokens = 512;   // of a long input, taken at a time
constexpr int64_t scored_tokens = 256;  // whose logits are kept at a time

}  // namespace

void Rwkv7::run(const Rows& rows, std::span<const int32_t> tokens, Logits wanted,
                View<float> logits, const Cpu& cpu) const {
  if (rows.count() == 0) return;
  Scratch s(shape_, rows.count());
  embed(tokens, s.x, cpu);
  if (rows.time == 1 && rows.count() <= kernel::matmul_few_tokens) {
    ThreadPool alone(1);
    cpu.threads.together([&](Crew& crew) {
      Scratch own(shape_, rows.count());
      Pass pass(rows, s, own, {alone, cpu.isa}, crew);
      go_through_layers(pass, wanted, logits);
    });
  } else {
    Pass pass(rows, s, cpu);
    go_through_layers(pass, wanted, logits);
  }
  for (size_t i = 0; i < rows.sequences(); ++i) rows.state(i).position += rows.time;
}

void Rwkv7::expect_own(std::span<const int32_t> tokens,
                       std::span<RecurrentState* const> states) const {
  for (const RecurrentState* state : states)
    if (state->shape != state_shape())
      fail(Fault::argument, "state: expected that of this model, found another shape");
  for (const int32_t token : tokens)
    if (token < 0 || token >= shape_.vocabulary)
      fail(Fault::argument, "token: expected 0 to ", shape_.vocabulary - 1, ", found ", token);
}

Tensor<float> Rwkv7::room_for_logits(int64_t rows) const {
  return gpu_ ? gpu_->room_for_logits(rows) : Tensor<float>({rows, shape_.vocabulary});
}

void Rwkv7::forward(std::span<const int32_t> tokens, RecurrentState& state, Logits wanted,
                    View<float> logits, const Cpu& cpu, TauRecord* taus) const {
  RecurrentState* const states[] = {&state};
  expect_own(tokens, states);
  const int64_t count = int64_t(tokens.size());
  if (wanted != Logits::none)
    expect_shape("logits", logits, {wanted == Logits::all ? count : 1, shape_.vocabulary});
  if (gpu_) return gpu_->forward(tokens, state, wanted, logits, taus);
  // Blocks end where a tile of 16 positions does, so that the cut leaves no trace.
  for (int64_t from = 0; from < count;) {
    const int64_t some = std::min(count - from, block_tokens - state.position % 16);
    const bool is_last = from + some == count;
    const Logits here = wanted == Logits::last && !is_last ? Logits::none : wanted;
    run({states, some, taus}, tokens.subspan(size_t(from), size_t(some)), here,
        here == Logits::all ? logits.part(0, from, some) : logits, cpu);
    from += some;
  }
}

void Rwkv7::step(std::span<const int32_t> tokens, std::span<RecurrentState* const> states,
                 View<float> logits, const Cpu& cpu) const {
  require(tokens.size() == states.size(), "step has one token per sequence");
  expect_own(tokens, states);
  expect_shape("logits", logits, {int64_t(tokens.size()), shape_.vocabulary});
  if (gpu_) return gpu_->step(tokens, states, logits);
  run({states, 1}, tokens, Logits::all, logits, cpu);
}

bool Rwkv7::step_and_pick(std::span<const int32_t> tokens, std::span<RecurrentState* const> states,
                          const Picks& picks) const {
  require(tokens.size() == states.size() && tokens.size() == picks.picking.size() &&
              tokens.size() == picks.picked.size(),
          "a step that picks has one of each per sequence");
  expect_own(tokens, states);
  for (const kernel::cuda::TokenPenalty& penalty : picks.penalties)
    expect_own({&penalty.token, 1}, {});
  return gpu_ && gpu_->step_and_pick(tokens, states, picks);
}

void Rwkv7::read_and_score(std::span<const Scored> sequences, const Cpu& cpu) const {
  for (const Scored& one : sequences) {
    require(one.tokens.size() == one.targets.size() && one.tokens.size() == one.losses.size(),
            "every token has a target and a loss");
    require(one.tokens.size() == sequences[0].tokens.size() &&
                one.state->position == sequences[0].state->position,
            "sequences side by side are at one position and have as many tokens");
    RecurrentState* const states[] = {one.state};
    expect_own(one.tokens, states);
    expect_own(one.targets, {});
  }
  if (gpu_) return gpu_->score(sequences);
  for (const Scored& one : sequences) score_on_cpu(one, cpu);
}

void Rwkv7::score_on_cpu(const Scored& sequence, const Cpu& cpu) const {
  const auto count = int64_t(sequence.tokens.size());
  Tensor<float> kept({std::min(count, scored_tokens), shape_.vocabulary});
  for (int64_t from = 0; from < count;) {
    int64_t some = std::min(count - from, scored_tokens - sequence.state->position % 16);
    if (sequence.adaptive)
      some = std::min(some, AdaptiveSane::until_next(sequence.state->position));
    const View<float> logits = kept.view().part(0, 0, some);
    forward(sequence.tokens.subspan(size_t(from), size_t(some)), *sequence.state, Logits::all,
            logits, cpu, sequence.taus);
    cpu.threads.parallel(some, [&](int64_t t) {
      sequence.losses[size_t(from + t)] = -log_probability(
          {logits.at(t), size_t(shape_.vocabulary)}, sequence.targets[size_t(from + t)]);
    });
    if (sequence.adaptive) sequence.adaptive->follow(*sequence.state, sane_.alpha);
    from += some;
  }
}

double Rwkv7::read_and_score(std::span<const int32_t> tokens, std::span<const int32_t> targets,
                             RecurrentState& state, std::span<double> losses, const Cpu& cpu,
                             TauRecord* taus) const {
  const Scored alone[] = {{tokens, targets, &state, losses, taus}};
  read_and_score(alone, cpu);
  double sum = 0;
  for (const double loss : losses) sum += loss;
  return sum;
}

}  // namespace deltasane
