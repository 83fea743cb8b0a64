#include "model/cpu/forward_passes.h"

#include <algorithm>

#include "model/log_probability.h"

namespace deltasane {

using kernel::Cpu;

namespace {

constexpr int64_t block_tokens = 512;  // of a long input, taken at a time
constexpr int64_t slice_tokens = 256;  // whose logits are held at a time

bool is_single(const SequenceInput& one) {
  return one.tokens.size() == 1 && !one.taus && !one.adaptive && one.want != Want::losses &&
         one.want != Want::top_log_probabilities;
}

bool wants_logits(const SequenceInput& one) { return one.want != Want::nothing; }

class Passes {
 public:
  Passes(const LanguageModel& model, const Cpu& cpu,
         const std::function<void(const ForwardPass&)>& run)
      : model_(model), cpu_(cpu), run_(run) {}

  void read(const SequenceInput& sequence) const;
  void step(std::span<const SequenceInput* const> singles) const;

 private:
  int64_t vocabulary() const { return model_.vocabulary(); }
  void read(std::span<const int32_t> tokens, SequenceState& state, Logits wanted,
            View<float> logits, TauRecord* taus) const;
  // With the logits of some tokens at a time: take(from, logits).
  template <class Take>
  void read_in_slices(const SequenceInput& sequence, const Take& take) const;

  const LanguageModel& model_;
  const Cpu& cpu_;
  const std::function<void(const ForwardPass&)>& run_;
};

// One token of each of several sequences, in one pass.
void Passes::step(std::span<const SequenceInput* const> singles) const {
  const auto count = int64_t(singles.size());
  std::vector<int32_t> tokens;
  std::vector<SequenceState*> states;
  for (const SequenceInput* one : singles)
    tokens.push_back(one->tokens[0]), states.push_back(one->state);
  // Where rows of logits follow each other in the caller's memory, they are written there.
  bool in_place = true, wanted = false;
  for (size_t i = 0; i < singles.size(); ++i) {
    const View<float>& row = singles[i]->logits;
    in_place = in_place && row && row.data == singles[0]->logits.data + int64_t(i) * vocabulary();
    wanted = wanted || wants_logits(*singles[i]);
  }
  Tensor<float> own;
  if (wanted && !in_place) own = Tensor<float>({count, vocabulary()});
  const View<float> logits{in_place ? singles[0]->logits.data : own.data(),
                           {count, vocabulary()}};
  run_({states, 1, tokens, wanted ? Logits::all : Logits::none, logits, nullptr});
  cpu_.threads.parallel(count, [&](int64_t i) {
    const SequenceInput& one = *singles[size_t(i)];
    const std::span<const float> row(logits.at(i), size_t(wanted ? vocabulary() : 0));
    if (one.want == Want::sample)
      *one.sampled = one.sampler->sample(row, one.state->position);
    else if (wants_logits(one) && !in_place)
      std::ranges::copy(row, one.logits.data);
  });
}

// Blocks end where a tile of 16 positions does, so that the cut leaves no trace.
void Passes::read(std::span<const int32_t> tokens, SequenceState& state, Logits wanted,
                 View<float> logits, TauRecord* taus) const {
  const auto count = int64_t(tokens.size());
  SequenceState* const states[] = {&state};
  for (int64_t from = 0; from < count;) {
    const int64_t some = std::min(count - from, block_tokens - state.position % 16);
    const bool is_last = from + some == count;
    const Logits here = wanted == Logits::last && !is_last ? Logits::none : wanted;
    run_({states, some, tokens.subspan(size_t(from), size_t(some)), here,
          here == Logits::all ? logits.slice(0, from, some) : logits, taus});
    from += some;
  }
}

template <class Take>
void Passes::read_in_slices(const SequenceInput& one, const Take& take) const {
  const auto count = int64_t(one.tokens.size());
  Tensor<float> held({std::min(count, slice_tokens), vocabulary()});
  for (int64_t from = 0; from < count;) {
    int64_t some = std::min(count - from, slice_tokens - one.state->position % 16);
    if (one.adaptive) some = std::min(some, AdaptiveSane::until_next(one.state->position));
    const View<float> logits = held.view().slice(0, 0, some);
    read(one.tokens.subspan(size_t(from), size_t(some)), *one.state, Logits::all, logits,
         one.taus);
    cpu_.threads.parallel(some, [&](int64_t t) {
      take(from + t, std::span<const float>(logits.at(t), size_t(vocabulary())));
    });
    if (one.adaptive) one.adaptive->follow(*one.state, model_.sane().alpha);
    from += some;
  }
}

void Passes::read(const SequenceInput& one) const {
  if (one.tokens.empty()) return;
  const auto plain = [&](Logits wanted, View<float> logits) {
    require(!one.adaptive, "SANE's strength follows a sequence whose losses are taken");
    read(one.tokens, *one.state, wanted, logits, one.taus);
  };
  switch (one.want) {
    case Want::nothing:
      return plain(Logits::none, {});
    case Want::last_logits:
      return plain(Logits::last, one.logits);
    case Want::all_logits:
      return plain(Logits::all, one.logits);
    case Want::losses:
      return read_in_slices(one, [&](int64_t t, std::span<const float> logits) {
        one.losses[size_t(t)] = -log_probability(logits, one.targets[size_t(t)]);
      });
    case Want::top_log_probabilities:
      return read_in_slices(one, [&](int64_t t, std::span<const float> logits) {
        take_top(logits, one.top.subspan(size_t(t * one.top_count), size_t(one.top_count)));
        if (!one.targets.empty())
          one.losses[size_t(t)] = -log_probability(logits, one.targets[size_t(t)]);
      });
    case Want::sample: {
      Tensor<float> own;
      if (!one.logits) own = Tensor<float>({1, vocabulary()});
      const View<float> logits = one.logits ? one.logits : own.view();
      plain(Logits::last, logits);
      *one.sampled =
          one.sampler->sample({logits.data, size_t(vocabulary())}, one.state->position);
    }
  }
}

}  // namespace

void run_in_passes(const LanguageModel& model, std::span<const SequenceInput> batch,
                   const Cpu& cpu, const std::function<void(const ForwardPass&)>& run) {
  const Passes passes(model, cpu, run);
  std::vector<const SequenceInput*> singles;
  for (const SequenceInput& one : batch)
    if (is_single(one))
      singles.push_back(&one);
    else
      passes.read(one);
  if (!singles.empty()) passes.step(singles);
}

}  // namespace deltasane
