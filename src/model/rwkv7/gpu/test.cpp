#include "model/rwkv7/gpu/model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/half.h"
#include "base/random.h"
#include "model/rwkv7/checkpoint/fixture_held.h"
#include "model/rwkv7/checkpoint/write.h"
#include "model/rwkv7/fixture_shape.h"
#include "model/log_probability.h"
#include "model/rwkv7/random.h"
#include "model/rwkv7/reference.h"
#include "support/errors.h"
#include "support/scratch.h"
#include "tensor/cuda/gpu.h"
#include "tensor/pooled_closeness.h"

namespace deltasane {
namespace {

constexpr Rwkv7Shape small = test::small_gpu_rwkv7();

constexpr Rwkv7Shape of_width(int64_t channels, int64_t feed_forward, int64_t vocabulary,
                              int64_t rank_g) {
  Rwkv7Shape shape = small;
  shape.layers = 2, shape.channels = channels, shape.heads = channels / 64;
  shape.feed_forward = feed_forward, shape.vocabulary = vocabulary, shape.rank_g = rank_g;
  return shape;
}

enum class Sane { none, run_time, trained };

std::vector<int32_t> some_tokens(int64_t count) {
  Random random(5);
  std::vector<int32_t> tokens;
  for (int64_t i = 0; i < count; ++i)
    tokens.push_back(int32_t(random.below(uint64_t(small.vocabulary))));
  return tokens;
}

using test::HeldRwkv7;

// With its matrices rounded to bf16, as a model on a GPU has them.
HeldRwkv7 rounded(const Rwkv7Source& model) {
  HeldRwkv7 out(model);
  for (auto& [name, numbers] : out.tensors)
    if (numbers.shape().rank() == 2 && numbers.shape()[0] > 1 && numbers.shape()[1] > 1 &&
        name.find("r_k") == name.npos)
      for (float& number : numbers.span()) number = float(bf16(number));
  return out;
}

using Numbers = std::vector<float>;

struct Outcome {
  Tensor<float> logits;
  RecurrentState state;
};

class Rwkv7OnGpuTest : public testing::TestWithParam<Sane> {
 protected:
  void SetUp() override {
    if (Gpu::count() == 0) GTEST_SKIP() << "this machine has no GPU";
    take(small);
  }

  void take(const Rwkv7Shape& shape) {
    shape_ = shape;
    shape_.sane = GetParam() == Sane::trained;
  }

  HeldRwkv7 model_of(uint64_t seed) const { return HeldRwkv7(RandomRwkv7(shape_, seed)); }
  Rwkv7 open(const Device& device, kernel::WeightType weights, uint64_t seed = 1) const {
    Metadata metadata;
    if (shape_.sane) metadata = {{"sane.alpha", "3"}, {"sane.chunk", "16"}};
    const fs::path path = scratch_.path() / cat(shape_.channels, "-", seed, ".safetensors");
    if (!fs::exists(path))
      write_rwkv7_safetensors(path, RandomRwkv7(shape_, seed), StoredType::f32, metadata);
    Rwkv7Options options;
    options.device = device;
    options.weights = weights;
    if (GetParam() == Sane::run_time) options.sane_alpha = 0.5;
    return Rwkv7(Rwkv7Checkpoint(path), options);
  }
  void step_together(int64_t count);
  Rwkv7 on_gpu(kernel::WeightType weights = kernel::WeightType::f32) const {
    return open({0}, weights);
  }
  Outcome run(const Rwkv7& model, std::span<const int32_t> tokens,
              std::span<const int64_t> lengths) {
    Outcome out{Tensor<float>({int64_t(tokens.size()), shape_.vocabulary}), model.fresh_state()};
    out.logits.fill(NAN);
    int64_t from = 0;
    for (const int64_t length : lengths) {
      model.forward(tokens.subspan(size_t(from), size_t(length)), out.state, Rwkv7::Logits::all,
                    out.logits.view().part(0, from, length), {threads_});
      from += length;
    }
    EXPECT_EQ(out.state.position, int64_t(tokens.size()));
    return out;
  }
  reference::SaneStrength strength() const {
    if (GetParam() == Sane::none) return {};
    return {GetParam() == Sane::trained ? 3.0 : 0.5, 16};
  }
  // In float, by the rule for models.
  void expect_the_definition(const Outcome& found, std::span<const int32_t> tokens) {
    const HeldRwkv7 source = model_of(1);
    const auto truth = reference::rwkv7<double>(source, shape_, strength(), tokens);
    const auto plain = reference::rwkv7<float>(source, shape_, strength(), tokens);
    const Closeness logits =
        closeness(found.logits.span(), plain.logits, truth.logits, Judged::as_model);
    const Closeness memory =
        closeness(found.state.memory().span(), plain.memory, truth.memory, Judged::as_model);
    EXPECT_TRUE(logits.close) << "logits " << logits.explanation();
    EXPECT_TRUE(memory.close) << "memory " << memory.explanation();
  }

  // In 16 bits: what rounding every matrix once does to the result is what one rounding of that
  // size costs. A layer rounds about as much again at each of the ten places where activations are
  // kept in 16 bits, so ten times that is allowed.
  void expect_near_the_definition(const Outcome& found, std::span<const int32_t> tokens) {
    const HeldRwkv7 source = model_of(1);
    const auto truth = reference::rwkv7<double>(source, shape_, strength(), tokens);
    const auto off = reference::rwkv7<double>(rounded(source), shape_, strength(), tokens);
    const auto error = [](const auto& a, const auto& b) {
      double sum = 0;
      for (size_t i = 0; i < b.size(); ++i) sum += std::pow(double(a[i]) - double(b[i]), 2);
      return std::sqrt(sum / double(b.size()));
    };
    EXPECT_LE(error(found.logits.span(), truth.logits), 10 * error(off.logits, truth.logits));
    EXPECT_LE(error(found.state.memory().span(), truth.memory),
              10 * error(off.memory, truth.memory));
  }

  Rwkv7Shape shape_;
  test::Scratch scratch_;
  ThreadPool threads_{2};
};

// Four models are judged together: over one, the yardstick may be lucky.
TEST_P(Rwkv7OnGpuTest, IsTheDefinitionHoweverItIsCut) {
  const auto tokens = some_tokens(83);
  const std::vector<int64_t> ones(83, 1);
  const std::vector<std::vector<int64_t>> cuts{{83}, {7, 76}, {16, 33, 1, 33}, {1, 15, 67}, ones};
  std::vector<PooledCloseness> logits(cuts.size()), memory(cuts.size());
  for (const uint64_t seed : {1, 2, 3, 4}) {
    const HeldRwkv7 source = model_of(seed);
    const auto truth = reference::rwkv7<double>(source, shape_, strength(), tokens);
    const auto plain = reference::rwkv7<float>(source, shape_, strength(), tokens);
    const Rwkv7 model = open({0}, kernel::WeightType::f32, seed);
    for (size_t i = 0; i < cuts.size(); ++i) {
      const Outcome found = run(model, tokens, cuts[i]);
      logits[i].add(found.logits.span(), plain.logits, truth.logits);
      memory[i].add(found.state.memory().span(), plain.memory, truth.memory);
    }
  }
  for (size_t i = 0; i < cuts.size(); ++i) {
    SCOPED_TRACE(cat("in ", cuts[i].size(), " parts, the first of ", cuts[i][0]));
    const Closeness of_logits = logits[i].judged(Judged::as_model);
    const Closeness of_memory = memory[i].judged(Judged::as_model);
    EXPECT_TRUE(of_logits.close) << "logits " << of_logits.explanation();
    EXPECT_TRUE(of_memory.close) << "memory " << of_memory.explanation();
  }
}

TEST_P(Rwkv7OnGpuTest, IsNearTheDefinitionIn16Bits) {
  const auto tokens = some_tokens(83);
  const Rwkv7 model = on_gpu(kernel::WeightType::bf16);
  const std::vector<int64_t> ones(83, 1);
  for (const std::vector<int64_t>& lengths : {std::vector<int64_t>{83}, {16, 33, 1, 33}, ones})
    expect_near_the_definition(run(model, tokens, lengths), tokens);
}

TEST_P(Rwkv7OnGpuTest, SingleTokensAreTheDefinitionEveryTimeAndOfEveryWidth) {
  const auto tokens = some_tokens(18);  // a chunk ends
  const std::vector<int64_t> ones(18, 1);
  // Fewer channels than a GPU has multiprocessors; rows of several pieces of weights, and several
  // rows for each warp of a GPU.
  for (const Rwkv7Shape& shape : {of_width(64, 100, 61, 40), of_width(1088, 2300, 2500, 400)})
    for (const auto weights : {kernel::WeightType::f32, kernel::WeightType::bf16}) {
      SCOPED_TRACE(cat(shape.channels, " channels, ", name_of(weights)));
      take(shape);
      const Rwkv7 model = on_gpu(weights);
      const Outcome found = run(model, tokens, ones), again = run(model, tokens, ones);
      if (weights == kernel::WeightType::f32)
        expect_the_definition(found, tokens);
      else
        expect_near_the_definition(found, tokens);
      EXPECT_TRUE(std::ranges::equal(found.logits.span(), again.logits.span()));
      EXPECT_TRUE(std::ranges::equal(found.state.memory().span(), again.state.memory().span()));
      EXPECT_TRUE(std::ranges::equal(found.state.shift().span(), again.state.shift().span()));
    }
}

TEST_P(Rwkv7OnGpuTest, LogitsAreTheSameWhereverTheyGo) {
  const auto tokens = some_tokens(2);
  const Rwkv7 model = on_gpu();
  const auto logits_in = [&](Tensor<float> room) {
    RecurrentState state = model.fresh_state();
    for (const int32_t token : tokens)
      model.forward({&token, 1}, state, Rwkv7::Logits::last, room.view(), {threads_});
    return room;
  };
  const Tensor<float> pinned = logits_in(model.room_for_logits(1));
  const Tensor<float> other = logits_in(Tensor<float>({1, shape_.vocabulary}));
  EXPECT_TRUE(is_pinned(pinned.data()));
  EXPECT_FALSE(is_pinned(other.data()));
  EXPECT_TRUE(std::ranges::equal(pinned.span(), other.span()));
}

TEST_P(Rwkv7OnGpuTest, BlocksInTwoQueuesAreOneReading) {
  const auto tokens = some_tokens(3 * 4096 + 77);
  const Rwkv7 model = on_gpu();
  RecurrentState whole = model.fresh_state(), parts = model.fresh_state();
  TauRecord taus(shape_.layers, shape_.heads), taus_of_parts(shape_.layers, shape_.heads);
  Tensor<float> a({1, shape_.vocabulary}), b({1, shape_.vocabulary});
  model.forward(tokens, whole, Rwkv7::Logits::last, a.view(), {threads_}, &taus);
  for (size_t from = 0; from < tokens.size(); from += 4096)
    model.forward(std::span(tokens).subspan(from, std::min<size_t>(4096, tokens.size() - from)),
                  parts, Rwkv7::Logits::last, b.view(), {threads_}, &taus_of_parts);
  EXPECT_EQ(std::memcmp(a.data(), b.data(), a.span().size_bytes()), 0);
  EXPECT_EQ(
      std::memcmp(whole.memory().data(), parts.memory().data(), whole.memory().span().size_bytes()),
      0);
  const int64_t chunks = GetParam() == Sane::none ? 0 : int64_t(tokens.size()) / 16;
  for (int64_t layer = 0; layer < shape_.layers; ++layer)
    for (int64_t head = 0; head < shape_.heads; ++head) {
      EXPECT_EQ(taus.at(layer, head).count, chunks);
      EXPECT_EQ(taus.at(layer, head).sum, taus_of_parts.at(layer, head).sum);
      EXPECT_EQ(taus.at(layer, head).last, taus_of_parts.at(layer, head).last);
    }
}

TEST_P(Rwkv7OnGpuTest, TakesTheAlphasOfAState) {
  const auto tokens = some_tokens(16);  // tau shows in the state when they are read
  const Rwkv7 model = on_gpu();
  const auto heads = size_t(shape_.layers * shape_.heads);
  const auto read = [&](const std::vector<float>& alphas, TauRecord& taus) {
    RecurrentState state = model.fresh_state();
    state.alphas = alphas;
    model.forward(tokens, state, Rwkv7::Logits::none, {}, {threads_}, &taus);
    return Numbers(state.memory().span().begin(), state.memory().span().end());
  };
  TauRecord usual(shape_.layers, shape_.heads), same = usual, twice = usual, again = usual;
  const Numbers without = read({}, usual);
  const auto alpha = float(strength().alpha);
  EXPECT_EQ(read(std::vector<float>(heads, alpha), same), without);
  std::vector<float> alphas(heads, alpha);
  alphas.back() *= 2;
  const Numbers with = read(alphas, twice);
  EXPECT_EQ(read({}, again), without) << "the alphas of another state have been kept";
  if (GetParam() == Sane::none) return;
  EXPECT_NE(with, without);
  const auto last = [&](const TauRecord& taus, int64_t head) {
    return taus.at(shape_.layers - 1, head).last;
  };
  EXPECT_EQ(last(twice, 0), last(usual, 0));
  const float own = last(twice, shape_.heads - 1), others = last(usual, shape_.heads - 1);
  EXPECT_NEAR(own - 1, 2 * (others - 1), 4 * 0x1p-23 * own);  // each is rounded once
}

TEST_P(Rwkv7OnGpuTest, TellsTheLossesThatItsLogitsHave) {
  const auto tokens = some_tokens(301);
  const Rwkv7 model = on_gpu();
  const auto read = std::span(tokens).first(300), next = std::span(tokens).last(300);
  const int64_t all[] = {300};
  const Outcome with_logits = run(model, read, all);
  RecurrentState state = model.fresh_state();
  std::vector<double> losses(300, NAN);
  TauRecord taus(shape_.layers, shape_.heads);
  const double sum = model.read_and_score(read, next, state, losses, {threads_}, &taus);
  double expected = 0;
  for (int64_t t = 0; t < 300; ++t) {
    const double loss = -log_probability(
        {with_logits.logits.data() + t * shape_.vocabulary, size_t(shape_.vocabulary)},
        next[size_t(t)]);
    // Both sum 61 floats: each term is off by a few units in the last place.
    EXPECT_NEAR(losses[size_t(t)], loss, 64 * 0x1p-23 * std::max(1.0, loss));
    expected += loss;
  }
  EXPECT_NEAR(sum, expected, 300 * 64 * 0x1p-23 * 10);
  EXPECT_EQ(taus.at(0, 0).count, GetParam() == Sane::none ? 0 : 18);
}

// So many that they are read in two groups, the first one in several blocks, from inside a tile on.
TEST_P(Rwkv7OnGpuTest, SequencesSideBySideAreTheDefinition) {
  constexpr int64_t count = 17, before = 7, time = 300;
  const auto tokens = some_tokens(before + time + count);
  const auto part = [&](int64_t sequence, int64_t from, int64_t some) {
    return std::span(tokens).subspan(size_t(sequence + from), size_t(some));
  };
  const Rwkv7 model = on_gpu();
  std::vector<RecurrentState> states;
  std::vector<TauRecord> taus(size_t(count), TauRecord(shape_.layers, shape_.heads));
  std::vector<std::vector<double>> losses(size_t(count), std::vector<double>(size_t(time), NAN));
  for (int64_t i = 0; i < count; ++i) {
    states.push_back(model.fresh_state());
    model.forward(part(i, 0, before), states.back(), Rwkv7::Logits::none, {}, {threads_});
  }
  std::vector<Rwkv7::Scored> all;
  for (int64_t i = 0; i < count; ++i)
    all.push_back({part(i, before, time), part(i, before + 1, time), &states[size_t(i)],
                   losses[size_t(i)], &taus[size_t(i)]});
  model.read_and_score(all, {threads_});
  const HeldRwkv7 source = model_of(1);
  for (const int64_t i : {int64_t(0), int64_t(9), count - 1}) {
    SCOPED_TRACE(cat("sequence ", i));
    const auto read = part(i, 0, before + time);
    const auto truth = reference::rwkv7<double>(source, shape_, strength(), read);
    const auto plain = reference::rwkv7<float>(source, shape_, strength(), read);
    const Closeness memory =
        closeness(states[size_t(i)].memory().span(), plain.memory, truth.memory);
    EXPECT_TRUE(memory.close) << "memory " << memory.explanation();
    std::vector<float> found, plainly;
    std::vector<double> truly;
    for (int64_t t = 0; t < time; ++t) {
      const size_t row = size_t((before + t) * shape_.vocabulary), wide = size_t(shape_.vocabulary);
      const int32_t target = part(i, before + 1 + t, 1)[0];
      found.push_back(float(losses[size_t(i)][size_t(t)]));
      plainly.push_back(
          float(-log_probability(std::span(plain.logits).subspan(row, wide), target)));
      double sum = 0;
      for (size_t j = 0; j < wide; ++j) sum += std::exp(truth.logits[row + j]);
      truly.push_back(std::log(sum) - truth.logits[row + size_t(target)]);
    }
    const Closeness cost = closeness(found, plainly, truly);
    EXPECT_TRUE(cost.close) << "losses " << cost.explanation();
    EXPECT_EQ(states[size_t(i)].position, before + time);
    EXPECT_EQ(taus[size_t(i)].at(2, 2).count, GetParam() == Sane::none ? 0 : (before + time) / 16);
  }
}

// Sequences with alphas of their own side by side; then a token of each of many with the same ones,
// between those of many with the model's, whose steps are recorded by then.
TEST_P(Rwkv7OnGpuTest, SequencesKeepTheirOwnAlphas) {
  if (GetParam() == Sane::none) return;
  const auto tokens = some_tokens(80);
  const Rwkv7 model = on_gpu();
  const auto expect_alpha = [&](const RecurrentState& state, double alpha) {
    SCOPED_TRACE(cat("alpha ", alpha, " after ", state.position, " tokens"));
    const auto read = std::span(tokens).first(size_t(state.position));
    const HeldRwkv7 source = model_of(1);
    const auto truth = reference::rwkv7<double>(source, shape_, {alpha, 16}, read);
    const auto plain = reference::rwkv7<float>(source, shape_, {alpha, 16}, read);
    const Closeness memory = closeness(state.memory().span(), plain.memory, truth.memory);
    EXPECT_TRUE(memory.close) << memory.explanation();
  };
  std::vector<double> losses(32);
  std::vector<RecurrentState> states;
  std::vector<Rwkv7::Scored> all;
  const std::vector<double> alphas{strength().alpha, 0.25, 2};
  for (size_t i = 0; i < alphas.size(); ++i) states.push_back(model.fresh_state());
  for (size_t i = 1; i < alphas.size(); ++i)
    states[i].alphas.assign(size_t(shape_.layers * shape_.heads), float(alphas[i]));
  for (RecurrentState& state : states)
    all.push_back({std::span(tokens).first(32), std::span(tokens).subspan(1, 32), &state, losses});
  model.read_and_score(all, {threads_});
  for (size_t i = 0; i < alphas.size(); ++i) expect_alpha(states[i], alphas[i]);

  Tensor<float> logits({12, shape_.vocabulary});
  const auto twelve = [](const RecurrentState& state) {
    std::vector<RecurrentState> same;
    for (int64_t i = 0; i < 12; ++i) same.push_back(state.clone());
    return same;
  };
  std::vector<RecurrentState> with = twelve(states[1]), without = twelve(states[0]);
  const auto step_to = [&](int64_t end, std::vector<RecurrentState>& same) {
    std::vector<RecurrentState*> places;
    for (RecurrentState& state : same) places.push_back(&state);
    while (same[0].position < end)
      model.step(std::vector<int32_t>(12, tokens[size_t(same[0].position)]), places, logits.view(),
                 {threads_});
  };
  step_to(64, without);  // chunks end twice
  step_to(48, with);
  expect_alpha(with[0], alphas[1]), expect_alpha(with[11], alphas[1]);
  step_to(80, without);
  expect_alpha(without[0], alphas[0]), expect_alpha(without[11], alphas[0]);
}

TEST_P(Rwkv7OnGpuTest, TellsTheNormsOfHeads) {
  const auto tokens = some_tokens(40);
  const Rwkv7 model = on_gpu();
  RecurrentState state = model.fresh_state();
  model.forward(tokens, state, Rwkv7::Logits::none, {}, {threads_});
  const auto norms = state.head_norms_on_device();
  ASSERT_TRUE(norms);
  const auto size = size_t(shape_.head_size * shape_.head_size);
  ASSERT_EQ(norms->size(), size_t(shape_.layers * shape_.heads));
  for (size_t head = 0; head < norms->size(); ++head) {
    double squares = 0;
    for (const float entry : state.memory().span().subspan(head * size, size))
      squares += double(entry) * double(entry);
    // Two sums of 4096 terms that are not negative, each with a rounding per term.
    EXPECT_NEAR((*norms)[head], std::sqrt(squares), double(size) * 0x1p-52 * std::sqrt(squares));
    EXPECT_GT(squares, 0);
  }
}

// Up to three sequences of the small model come in turn, more in a block, which has other kernels
// for up to 32 and is recorded by the second step. Of a model that is too small to come in turn up
// to eight come together. Sequence i has read i % 17 tokens before, so that chunks end at different
// times.
TEST_P(Rwkv7OnGpuTest, SequencesSteppedTogetherAreEachTheDefinition) {
  for (const int64_t count : {1, 2, 3, 5, 8, 9, 70}) step_together(count);
  take(of_width(64, 100, 61, 40));
  for (const int64_t count : {1, 2, 3, 5, 8, 9}) step_together(count);
}

void Rwkv7OnGpuTest::step_together(int64_t count) {
  constexpr int64_t steps = 3;
  const auto tokens = some_tokens(400);
  const Rwkv7 model = on_gpu();
  const auto stepped = [&](int64_t step) {
    return std::span(tokens).subspan(size_t(100 + step * 70));
  };
  std::vector<RecurrentState> states;
  std::vector<RecurrentState*> places;
  for (int64_t i = 0; i < count; ++i) {
    states.push_back(model.fresh_state());
    model.forward(std::span(tokens).subspan(size_t(i), size_t(i % 17)), states.back(),
                  Rwkv7::Logits::none, {}, {threads_});
  }
  for (RecurrentState& state : states) places.push_back(&state);
  std::vector<Tensor<float>> found;
  for (int64_t step = 0; step < steps; ++step) {
    found.emplace_back(Shape{count, shape_.vocabulary});
    model.step(stepped(step).first(size_t(count)), places, found.back().view(), {threads_});
  }
  for (const int64_t i : {int64_t(0), count - 1}) {
    SCOPED_TRACE(cat("sequence ", i, " of ", count));
    std::vector<int32_t> all(tokens.begin() + i, tokens.begin() + i + i % 17);
    for (int64_t step = 0; step < steps; ++step) all.push_back(stepped(step)[size_t(i)]);
    const HeldRwkv7 source = model_of(1);
    const auto truth = reference::rwkv7<double>(source, shape_, strength(), all);
    const auto plain = reference::rwkv7<float>(source, shape_, strength(), all);
    const auto count_of_last = size_t(steps * shape_.vocabulary);
    std::vector<float> logits;
    for (const Tensor<float>& step : found) {
      const auto row =
          step.span().subspan(size_t(i * shape_.vocabulary), size_t(shape_.vocabulary));
      logits.insert(logits.end(), row.begin(), row.end());
    }
    const Closeness near = closeness(logits, std::span(plain.logits).last(count_of_last),
                                     std::span(truth.logits).last(count_of_last));
    const Closeness memory =
        closeness(states[size_t(i)].memory().span(), plain.memory, truth.memory);
    EXPECT_TRUE(near.close) << "logits " << near.explanation();
    EXPECT_TRUE(memory.close) << "memory " << memory.explanation();
    EXPECT_EQ(states[size_t(i)].position, i % 17 + steps);
  }
}

TEST_P(Rwkv7OnGpuTest, StatesGoBetweenDevices) {
  const auto tokens = some_tokens(60);
  const Rwkv7 gpu = on_gpu(), cpu = open({}, kernel::WeightType::f32);
  RecurrentState state = gpu.fresh_state();
  Tensor<float> logits({60, shape_.vocabulary});
  const auto read = [&](const Rwkv7& model, int64_t from, int64_t count) {
    model.forward(std::span(tokens).subspan(size_t(from), size_t(count)), state, Rwkv7::Logits::all,
                  logits.view().part(0, from, count), {threads_});
  };
  read(gpu, 0, 10), read(cpu, 10, 7), read(gpu, 17, 23);
  state = state.clone();
  read(gpu, 40, 1), read(cpu, 41, 1), read(gpu, 42, 18);
  expect_the_definition({std::move(logits), std::move(state)}, tokens);
}

TEST(Rwkv7OnGpuRefusals, NeedNoGpu) {
  const test::Scratch scratch;
  Rwkv7Options options;
  options.device = {0};
  const auto open = [&](Rwkv7Shape shape, const Metadata& metadata) {
    const fs::path path = scratch.path() / "model.safetensors";
    shape.sane = !metadata.empty();
    write_rwkv7_safetensors(path, RandomRwkv7(shape, 1), StoredType::f32, metadata);
    return Rwkv7(Rwkv7Checkpoint(path), options);
  };
  EXPECT_FAULT(open(test::small_rwkv7(61), {}), Fault::device,
               "a model on a GPU: expected heads of 64 channels, found 32; use --device cpu");
  EXPECT_FAULT(
      open(small, {{"sane.alpha", "3"}, {"sane.chunk", "8"}}), Fault::device,
      "SANE on a GPU: expected a chunk that is a multiple of 16, found 8; use --device cpu");
}

INSTANTIATE_TEST_SUITE_P(Kinds, Rwkv7OnGpuTest,
                         testing::Values(Sane::none, Sane::run_time, Sane::trained),
                         [](const auto& one) {
                           return one.param == Sane::none       ? "none"
                                  : one.param == Sane::run_time ? "run_time"
                                                                : "trained";
                         });

}  // namespace
}  // namespace deltasane
