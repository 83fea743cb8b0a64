#include "model/rwkv7/model.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "base/random.h"
#include "model/rwkv7/checkpoint/fixture_held.h"
#include "model/rwkv7/checkpoint/write.h"
#include "model/log_probability.h"
#include "model/rwkv7/random.h"
#include "model/rwkv7/reference.h"
#include "support/errors.h"
#include "support/scratch.h"
#include "tensor/closeness.h"

namespace deltasane {
namespace {

constexpr Rwkv7Shape small{.layers = 3,
                           .channels = 96,
                           .heads = 3,
                           .head_size = 32,
                           .feed_forward = 200,
                           .vocabulary = 61,
                           .rank_w = 8,
                           .rank_a = 12,
                           .rank_v = 5,
                           .rank_g = 17};

std::vector<int32_t> some_tokens(int64_t count, int64_t vocabulary) {
  Random random(5);
  std::vector<int32_t> tokens;
  for (int64_t i = 0; i < count; ++i) tokens.push_back(int32_t(random.below(uint64_t(vocabulary))));
  return tokens;
}

// A random model, written to a file and opened again.
struct OnDisk {
  test::Scratch scratch;
  Rwkv7Shape shape;
  fs::path path = scratch.path() / "model.safetensors";

  explicit OnDisk(Rwkv7Shape s = small, StoredType type = StoredType::f32) : shape(s) {
    Metadata metadata;
    if (shape.sane) metadata = {{"sane.alpha", "3"}, {"sane.chunk", "16"}};
    write_rwkv7_safetensors(path, RandomRwkv7(shape, 1), type, metadata);
  }
  Rwkv7 open(const Rwkv7Options& options = {}) const {
    return Rwkv7(Rwkv7Checkpoint(path), options);
  }
};

struct Outcome {
  Tensor<float> logits;
  RecurrentState state;
};

Outcome run_in_pieces(const Rwkv7& model, std::span<const int32_t> tokens,
                      std::span<const int64_t> lengths, const kernel::Cpu& cpu) {
  Outcome run{Tensor<float>({int64_t(tokens.size()), model.shape().vocabulary}),
              model.fresh_state()};
  int64_t from = 0;
  for (const int64_t length : lengths) {
    model.forward(tokens.subspan(size_t(from), size_t(length)), run.state, Rwkv7::Logits::all,
                  run.logits.view().part(0, from, length), cpu);
    from += length;
  }
  return run;
}

Outcome run_whole(const Rwkv7& model, std::span<const int32_t> tokens, const kernel::Cpu& cpu) {
  const int64_t all[] = {int64_t(tokens.size())};
  return run_in_pieces(model, tokens, all, cpu);
}

void expect_the_definition(const Outcome& run, const Rwkv7Source& source, const Rwkv7Shape& shape,
                           const reference::SaneStrength& sane, std::span<const int32_t> tokens) {
  const auto truth = reference::rwkv7<double>(source, shape, sane, tokens);
  const auto plain = reference::rwkv7<float>(source, shape, sane, tokens);
  const Closeness logits = closeness(run.logits.span(), plain.logits, truth.logits);
  const Closeness memory = closeness(run.state.memory().span(), plain.memory, truth.memory);
  EXPECT_TRUE(logits.close) << "logits " << logits.explanation();
  EXPECT_TRUE(memory.close) << "memory " << memory.explanation();
}

TEST(Rwkv7, IsTheDefinitionWithAndWithoutSane) {
  ThreadPool threads(2);
  const auto tokens = some_tokens(40, small.vocabulary);
  const OnDisk baseline;
  const test::HeldRwkv7 source(RandomRwkv7(small, 1));
  expect_the_definition(run_whole(baseline.open(), tokens, {threads}), source, small, {}, tokens);
  Rwkv7Options at_run_time;
  at_run_time.sane_alpha = 0.5;
  expect_the_definition(run_whole(baseline.open(at_run_time), tokens, {threads}), source, small,
                        {0.5, 16}, tokens);
  Rwkv7Shape with_sane = small;
  with_sane.sane = true;
  const OnDisk trained(with_sane);
  const test::HeldRwkv7 sane_source(RandomRwkv7(with_sane, 1));
  expect_the_definition(run_whole(trained.open(), tokens, {threads}), sane_source, with_sane,
                        {3, 16}, tokens);
  Rwkv7Options off;
  off.without_sane = true;
  expect_the_definition(run_whole(trained.open(off), tokens, {threads}), sane_source, with_sane, {},
                        tokens);
}

TEST(Rwkv7, AnyCutAgreesWithTheDefinition) {
  ThreadPool threads(2);
  const auto tokens = some_tokens(50, small.vocabulary);
  const OnDisk file;
  Rwkv7Options options;
  options.sane_alpha = 0.5;
  const Rwkv7 model = file.open(options);
  const test::HeldRwkv7 source(RandomRwkv7(small, 1));
  const std::vector<int64_t> ones(50, 1);
  for (const std::vector<int64_t>& lengths : {std::vector<int64_t>{7, 43}, {16, 33, 1}, ones})
    expect_the_definition(run_in_pieces(model, tokens, lengths, {threads}), source, small,
                          {0.5, 16}, tokens);
}

TEST(Rwkv7, SequencesSteppedTogetherDoNotMeet) {
  ThreadPool threads(2);
  const OnDisk file;
  const Rwkv7 model = file.open();
  const auto tokens = some_tokens(30, small.vocabulary);
  RecurrentState alone[3], together[3];
  Tensor<float> logits({3, small.vocabulary}), one({1, small.vocabulary});
  for (int i = 0; i < 3; ++i) {
    alone[i] = model.fresh_state();
    model.forward({tokens.data() + i, size_t(3 * i + 2)}, alone[i], Rwkv7::Logits::none, {},
                  {threads});
    together[i] = alone[i].clone();
  }
  RecurrentState* const states[] = {&together[0], &together[1], &together[2]};
  model.step({tokens.data() + 20, 3}, states, logits.view(), {threads});
  for (int i = 0; i < 3; ++i) {
    model.forward({tokens.data() + 20 + i, 1}, alone[i], Rwkv7::Logits::last, one.view(),
                  {threads});
    EXPECT_EQ(alone[i].position, together[i].position);
    for (int64_t c = 0; c < small.vocabulary; ++c)
      EXPECT_NEAR(one[c], logits[i * small.vocabulary + c], 1e-4 * std::abs(one[c]) + 1e-4);
  }
}

TEST(Rwkv7, ThreadsDoNotChangeABit) {
  const OnDisk file;
  const Rwkv7 model = file.open();
  const auto tokens = some_tokens(40, small.vocabulary);
  ThreadPool one(1), three(3);
  const Outcome a = run_whole(model, tokens, {one}), b = run_whole(model, tokens, {three});
  EXPECT_EQ(std::memcmp(a.logits.data(), b.logits.data(), size_t(a.logits.elements()) * 4), 0);
}

// Few sequences go through the layers with all threads together, many one operation at a time.
TEST(Rwkv7, ThreadsDoNotChangeABitOfAStep) {
  Rwkv7Shape with_sane = small;
  with_sane.sane = true;
  const OnDisk file(with_sane);
  const Rwkv7 model = file.open();
  ThreadPool one(1), three(3);
  for (const int64_t count : {1, 2, 12, 13}) {
    const auto tokens = some_tokens(count, small.vocabulary);
    const auto logits_after = [&](ThreadPool& threads) {
      std::vector<RecurrentState> states;
      std::vector<RecurrentState*> places;
      for (int64_t i = 0; i < count; ++i) {  // at different places in a chunk
        states.push_back(model.fresh_state());
        states.back().position = i;
      }
      for (RecurrentState& state : states) places.push_back(&state);
      Tensor<float> logits({count, small.vocabulary});
      for (int i = 0; i < 18; ++i) model.step(tokens, places, logits.view(), {threads});
      EXPECT_EQ(states.back().position, count - 1 + 18);
      return logits;
    };
    const Tensor<float> a = logits_after(one), b = logits_after(three);
    EXPECT_EQ(std::memcmp(a.data(), b.data(), size_t(a.elements()) * 4), 0) << count;
    EXPECT_GT(*std::max_element(a.data(), a.data() + a.elements()), 0.0f);
  }
}

TEST(Rwkv7, RefusesWhatIsNotItsOwn) {
  ThreadPool threads(1);
  const OnDisk file;
  const Rwkv7 model = file.open();
  RecurrentState other({1, 2, 3, 4}), fresh = model.fresh_state();
  const int32_t good[] = {1}, bad[] = {61};
  EXPECT_FAULT(model.forward(good, other, Rwkv7::Logits::none, {}, {threads}), Fault::argument,
               "state: expected that of this model");
  EXPECT_FAULT(model.forward(bad, fresh, Rwkv7::Logits::none, {}, {threads}), Fault::argument,
               "token: expected 0 to 60, found 61");
  RecurrentState* const states[] = {&fresh};
  Tensor<float> logits({1, 61});
  EXPECT_FAULT(model.step(bad, states, logits.view(), {threads}), Fault::argument,
               "token: expected 0 to 60, found 61");
  Rwkv7Options both;
  both.sane_alpha = 3, both.without_sane = true;
  EXPECT_FAULT(file.open(both), Fault::usage, "found both");
}

// Trained by others; logits after the bytes 34 105 110 (docs of the data: within 2e-5 of the
// largest for FP32, 1e-3 for FP16, the same argmax for the 5-bit files).
TEST(Rwkv7, TinyModelGivesItsKnownLogits) {
  const fs::path folder = fs::path(DELTASANE_SHARED) / "data" / "tiny-rwkv7";
  if (!fs::exists(folder)) GTEST_SKIP() << folder << " is not here";
  const std::string stored = read_file(folder / "expected-logits-7v0-834K.bin");
  std::vector<float> expected(256);
  ASSERT_EQ(stored.size(), 1024u);
  std::memcpy(expected.data(), stored.data(), stored.size());
  const float largest = *std::max_element(
      expected.begin(), expected.end(), [](float a, float b) { return std::abs(a) < std::abs(b); });
  const auto argmax = std::max_element(expected.begin(), expected.end()) - expected.begin();
  ThreadPool threads(2);
  const int32_t tokens[] = {34, 105, 110};
  const std::pair<const char*, double> files[] = {
      {"FP32", 2e-5}, {"FP16", 1e-3}, {"Q5_0", INFINITY}, {"Q5_1", INFINITY}};
  for (const auto& [type, bound] : files) {
    const Rwkv7 model(Rwkv7Checkpoint(folder / cat("tiny-rwkv-7v0-834K-", type, ".bin")), {});
    RecurrentState state = model.fresh_state();
    Tensor<float> logits({1, 256});
    model.forward(tokens, state, Rwkv7::Logits::last, logits.view(), {threads});
    double worst = 0, sum = 0;
    for (int64_t i = 0; i < 256; ++i) {
      worst = std::max(worst, std::abs(double(logits[i]) - expected[size_t(i)]));
      sum += double(logits[i]) - expected[size_t(i)];
    }
    EXPECT_LE(worst / std::abs(largest), bound) << type;
    EXPECT_EQ(std::max_element(logits.data(), logits.data() + 256) - logits.data(), argmax) << type;
    RecordProperty(type, cat(worst / std::abs(largest)));
    RecordProperty(cat(type, "_sum"), cat(sum));
  }
}

TEST(LogProbability, IsLogSoftmax) {
  const float logits[] = {1, 2, 3};
  double sum = 0;
  for (int32_t i = 0; i < 3; ++i) sum += std::exp(log_probability(logits, i));
  EXPECT_NEAR(sum, 1, 1e-15 * 3);
  EXPECT_NEAR(log_probability(logits, 2) - log_probability(logits, 0), 2, 1e-12);
  // Each exponential in float would be off by 6e-8 of itself.
  const std::vector<float> many{0.1f, 0.3f, 0.7f, -1.1f};
  double terms = 0;
  for (const float one : many) terms += std::exp(double(one));
  EXPECT_NEAR(log_probability(many, 0), double(0.1f) - std::log(terms), 1e-15);
}

TEST(Rwkv7, TellsWhichTausItUsed) {
  Rwkv7Shape shape = small;
  shape.sane = true;
  const OnDisk disk(shape);
  const Rwkv7 model = disk.open();
  const std::vector<int32_t> tokens = some_tokens(100, shape.vocabulary);
  ThreadPool threads(2);
  RecurrentState state = model.fresh_state(), unseen = model.fresh_state();
  TauRecord taus(shape.layers, shape.heads);
  for (const int64_t part : {0, 50}) {
    const auto some = std::span(tokens).subspan(size_t(part), part ? 46 : 50);
    model.forward(some, state, Rwkv7::Logits::none, {}, {threads}, &taus);
    model.forward(some, unseen, Rwkv7::Logits::none, {}, {threads});
  }
  ASSERT_EQ(state.position, 96);  // the end of a chunk: entries are within the last tau
  for (int64_t layer = 0; layer < shape.layers; ++layer)
    for (int64_t head = 0; head < shape.heads; ++head) {
      const TauRecord::Head& seen = taus.at(layer, head);
      EXPECT_EQ(seen.count, 6);
      EXPECT_GE(seen.low, 1);
      EXPECT_LT(seen.low, seen.high);
      EXPECT_LE(seen.low, seen.last);
      EXPECT_LE(seen.last, seen.high);
      EXPECT_GT(seen.sum, 6 * double(seen.low));
      const float* entries = state.memory().view().at(layer, head);
      for (int64_t i = 0; i < shape.head_size * shape.head_size; ++i)
        EXPECT_LE(std::abs(entries[i]), seen.last);
    }
  EXPECT_EQ(std::memcmp(state.memory().data(), unseen.memory().data(),
                        size_t(state.memory().elements()) * sizeof(float)),
            0);
}

// tau = alpha softplus(z) + 1 and z does not depend on alpha before the first chunk has ended.
TEST(Rwkv7, TakesTheAlphasOfAState) {
  ThreadPool threads(1);
  const auto tokens = some_tokens(16, small.vocabulary);
  for (const bool trained : {true, false}) {
    Rwkv7Shape shape = small;
    shape.sane = trained;
    const OnDisk disk(shape);
    const Rwkv7 model = disk.open(
        trained ? Rwkv7Options{} : Rwkv7Options{.device = {}, .weights = {}, .sane_alpha = 3.0});
    const auto read = [&](const std::vector<float>& alphas, RecurrentState state) {
      TauRecord taus(shape.layers, shape.heads);
      state.alphas = alphas;
      model.forward(tokens, state, Rwkv7::Logits::none, {}, {threads}, &taus);
      EXPECT_EQ(state.clone().alphas, alphas);
      return taus;
    };
    std::vector<float> alphas(size_t(shape.layers * shape.heads), 3);
    const TauRecord usual = read({}, model.fresh_state());
    const TauRecord same = read(alphas, model.fresh_state());
    alphas[size_t(shape.heads) + 2] = 6;  // layer 1, head 2
    const TauRecord twice = read(alphas, model.fresh_state());
    for (int64_t layer = 0; layer < shape.layers; ++layer)
      for (int64_t head = 0; head < shape.heads; ++head) {
        const float tau = usual.at(layer, head).last, own = twice.at(layer, head).last;
        EXPECT_EQ(same.at(layer, head).last, tau);
        if (layer == 1 && head == 2)
          EXPECT_NEAR(own - 1, 2 * (tau - 1), 4 * 0x1p-23 * double(own));  // each rounded once
        else
          EXPECT_EQ(own, tau);
      }
  }
}

}  // namespace
}  // namespace deltasane
