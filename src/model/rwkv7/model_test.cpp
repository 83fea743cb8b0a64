#include "model/rwkv7/model.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "base/random.h"
#include "model/fixture_forward.h"
#include "model/rwkv7/checkpoint/fixture_held.h"
#include "model/rwkv7/checkpoint/write.h"
#include "model/rwkv7/random.h"
#include "model/rwkv7/reference/reference.h"
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
  Rwkv7 open(const OpenOptions& options = {}) const {
    return Rwkv7(Rwkv7Checkpoint(path), options);
  }
};

struct Outcome {
  Tensor<float> logits;
  SequenceState state;
};

Outcome run_in_pieces(const Rwkv7& model, std::span<const int32_t> tokens,
                      std::span<const int64_t> lengths, const kernel::Cpu& cpu) {
  Outcome run{Tensor<float>({int64_t(tokens.size()), model.shape().vocabulary}),
              model.fresh_state()};
  int64_t from = 0;
  for (const int64_t length : lengths) {
    test::read_all(model, tokens.subspan(size_t(from), size_t(length)), run.state,
                   run.logits.view().slice(0, from, length), cpu);
    from += length;
  }
  return run;
}

Outcome run_whole(const Rwkv7& model, std::span<const int32_t> tokens, const kernel::Cpu& cpu) {
  const int64_t all[] = {int64_t(tokens.size())};
  return run_in_pieces(model, tokens, all, cpu);
}

void expect_the_definition(const Outcome& run, const TensorSource& source, const Rwkv7Shape& shape,
                           const reference::SaneStrength& sane, std::span<const int32_t> tokens) {
  const auto truth = reference::rwkv7<double>(source, shape, sane, tokens);
  const auto plain = reference::rwkv7<float>(source, shape, sane, tokens);
  const Closeness logits = closeness(run.logits.span(), plain.logits, truth.logits);
  const Closeness memory = closeness(test::memories(run.state), plain.memory, truth.memory);
  EXPECT_TRUE(logits.close) << "logits " << logits.explanation();
  EXPECT_TRUE(memory.close) << "memory " << memory.explanation();
}

TEST(Rwkv7, IsTheDefinitionWithAndWithoutSane) {
  ThreadPool threads(2);
  const auto tokens = some_tokens(40, small.vocabulary);
  const OnDisk baseline;
  const test::HeldRwkv7 source(RandomRwkv7(small, 1));
  expect_the_definition(run_whole(baseline.open(), tokens, {threads}), source, small, {}, tokens);
  OpenOptions at_run_time;
  at_run_time.sane.alpha = 0.5;
  expect_the_definition(run_whole(baseline.open(at_run_time), tokens, {threads}), source, small,
                        {0.5, 16}, tokens);
  Rwkv7Shape with_sane = small;
  with_sane.sane = true;
  const OnDisk trained(with_sane);
  const test::HeldRwkv7 sane_source(RandomRwkv7(with_sane, 1));
  expect_the_definition(run_whole(trained.open(), tokens, {threads}), sane_source, with_sane,
                        {3, 16}, tokens);
  OpenOptions off;
  off.sane.none = true;
  expect_the_definition(run_whole(trained.open(off), tokens, {threads}), sane_source, with_sane, {},
                        tokens);
}

TEST(Rwkv7, AnyCutAgreesWithTheDefinition) {
  ThreadPool threads(2);
  const auto tokens = some_tokens(50, small.vocabulary);
  const OnDisk file;
  OpenOptions options;
  options.sane.alpha = 0.5;
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
  SequenceState alone[3], together[3];
  Tensor<float> logits({3, small.vocabulary}), one({1, small.vocabulary});
  for (int i = 0; i < 3; ++i) {
    alone[i] = model.fresh_state();
    test::read(model, {tokens.data() + i, size_t(3 * i + 2)}, alone[i], {threads});
    together[i] = alone[i].clone();
  }
  SequenceState* const states[] = {&together[0], &together[1], &together[2]};
  test::step(model, {tokens.data() + 20, 3}, states, logits.view(), {threads});
  for (int i = 0; i < 3; ++i) {
    test::read_last(model, {tokens.data() + 20 + i, 1}, alone[i], one.view(), {threads});
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
      std::vector<SequenceState> states;
      std::vector<SequenceState*> places;
      for (int64_t i = 0; i < count; ++i) {  // at different places in a chunk
        states.push_back(model.fresh_state());
        states.back().position = i;
      }
      for (SequenceState& state : states) places.push_back(&state);
      Tensor<float> logits({count, small.vocabulary});
      for (int i = 0; i < 18; ++i) test::step(model, tokens, places, logits.view(), {threads});
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
  SequenceState other(test::uniform_layout(1, 2, 3, 4)), fresh = model.fresh_state();
  const int32_t good[] = {1}, bad[] = {61};
  EXPECT_FAULT(test::read(model, good, other, {threads}), Fault::argument,
               "state: expected that of this model");
  EXPECT_FAULT(test::read(model, bad, fresh, {threads}), Fault::argument,
               "token: expected 0 to 60, found 61");
  SequenceState* const states[] = {&fresh};
  Tensor<float> logits({1, 61});
  EXPECT_FAULT(test::step(model, bad, states, logits.view(), {threads}), Fault::argument,
               "token: expected 0 to 60, found 61");
  OpenOptions both;
  both.sane.alpha = 3, both.sane.none = true;
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
    SequenceState state = model.fresh_state();
    Tensor<float> logits({1, 256});
    test::read_last(model, tokens, state, logits.view(), {threads});
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

TEST(Rwkv7, TellsWhichTausItUsed) {
  Rwkv7Shape shape = small;
  shape.sane = true;
  const OnDisk disk(shape);
  const Rwkv7 model = disk.open();
  const std::vector<int32_t> tokens = some_tokens(100, shape.vocabulary);
  ThreadPool threads(2);
  SequenceState state = model.fresh_state(), unseen = model.fresh_state();
  TauRecord taus(*model.state_layout());
  for (const int64_t part : {0, 50}) {
    const auto some = std::span(tokens).subspan(size_t(part), part ? 46 : 50);
    test::read(model, some, state, {threads}, &taus);
    test::read(model, some, unseen, {threads});
  }
  ASSERT_EQ(state.position, 96);  // the end of a chunk: entries are within the last tau
  for (int64_t layer = 0; layer < shape.layers; ++layer)
    for (int64_t head = 0; head < shape.heads; ++head) {
      const auto at = size_t(layer * shape.heads + head);
      const TauRecord::Head& seen = taus[at];
      EXPECT_EQ(seen.count, 6);
      EXPECT_GE(seen.low, 1);
      EXPECT_LT(seen.low, seen.high);
      EXPECT_LE(seen.low, seen.last);
      EXPECT_LE(seen.last, seen.high);
      EXPECT_GT(seen.sum, 6 * double(seen.low));
      for (const float entry : state.of(state.layout().heads()[at]))
        EXPECT_LE(std::abs(entry), seen.last);
    }
  const auto entries = test::memories(state);
  EXPECT_EQ(std::memcmp(entries.data(), test::memories(unseen).data(), entries.size_bytes()), 0);
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
        trained ? OpenOptions{} : OpenOptions{.device = {}, .weights = {}, .sane = {.alpha = 3.0}});
    const auto read = [&](const std::vector<float>& alphas, SequenceState state) {
      TauRecord taus(*model.state_layout());
      state.alphas = alphas;
      test::read(model, tokens, state, {threads}, &taus);
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
        const auto at = size_t(layer * shape.heads + head);
        const float tau = usual[at].last, own = twice[at].last;
        EXPECT_EQ(same[at].last, tau);
        if (layer == 1 && head == 2)
          EXPECT_NEAR(own - 1, 2 * (tau - 1), 4 * 0x1p-23 * double(own));  // each rounded once
        else
          EXPECT_EQ(own, tau);
      }
  }
}

}  // namespace
}  // namespace deltasane
