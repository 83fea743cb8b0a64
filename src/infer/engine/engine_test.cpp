#include "infer/engine/engine.h"

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <numeric>

#include "base/random.h"
#include "model/fixture_forward.h"
#include "model/rwkv7/checkpoint/write.h"
#include "model/rwkv7/fixture_shape.h"
#include "model/rwkv7/fixture_touchy.h"
#include "model/rwkv7/model.h"
#include "support/errors.h"
#include "support/scratch.h"
#include "text/byte_tokenizer.h"

namespace deltasane {
namespace {

// Tokens are characters.
constexpr Rwkv7Shape ascii_shape = test::small_rwkv7(128);

// Bytes, of which one ends a document.
class EndingTokenizer : public Tokenizer {
 public:
  explicit EndingTokenizer(int32_t end) : end_(end) {}
  std::string_view name() const override { return "ending"; }
  int32_t vocabulary_size() const override { return 256; }
  std::optional<int32_t> end_of_document() const override { return end_; }
  std::string_view bytes_of(int32_t id) const override {
    return id == end_ ? std::string_view() : bytes_.bytes_of(id);
  }
  void append_encoded(std::string_view text, std::vector<int32_t>& ids) const override {
    bytes_.append_encoded(text, ids);
  }

 private:
  ByteTokenizer bytes_;
  int32_t end_;
};

using Texts = std::map<std::pair<uint64_t, size_t>, GeneratedText>;

struct EngineTest : testing::Test {
  test::Scratch scratch;
  ThreadPool threads{1};
  ByteTokenizer tokenizer;
  Rwkv7 model = open(test::TouchyRwkv7(ascii_shape));
  int prompts_read = 0;
  std::vector<std::string> resets;
  std::map<uint64_t, std::string> shown;  // by request, where it has one text

  Rwkv7 open(const TensorSource& source) const {
    const fs::path path = scratch.path() / "model.safetensors";
    write_rwkv7_safetensors(path, source, StoredType::f32, {});
    return Rwkv7(Rwkv7Checkpoint(path), {});
  }
  Rwkv7 overflowing() const {
    return open(test::OverflowingRwkv7(ascii_shape, 1e37f, test::OverflowingRwkv7::Decay::one));
  }

  std::vector<int32_t> prompt(uint64_t number, int64_t count) const {
    Random random(11, number);
    std::vector<int32_t> tokens;
    for (int64_t i = 0; i < count; ++i) tokens.push_back(int32_t(random.below(128)));
    return tokens;
  }
  static Sampler sampler(uint64_t stream) {
    return Sampler(
        SamplerSettings{.temperature = 1.2, .top_p = 0.95, .presence_penalty = 0.2, .seed = 6},
        stream);
  }
  TextRequest request(uint64_t id, int64_t prompt_tokens, size_t texts = 1) const {
    TextRequest one{id, model.fresh_state(), prompt(id, prompt_tokens), {}};
    for (size_t i = 0; i < texts; ++i) one.samplers.push_back(sampler(100 * id + i));
    return one;
  }
  // Prompts of one token, of one chunk and of several, with one text or several.
  std::vector<TextRequest> requests() const {
    std::vector<TextRequest> all;
    all.push_back(request(0, 40, 2));
    all.push_back(request(1, 1));
    all.push_back(request(2, 1100, 3));
    all.push_back(request(3, 2));
    all.push_back(request(4, 17, 5));
    all.push_back(request(5, 513));
    all.push_back(request(6, 12, 4));
    return all;
  }

  Texts run(const EngineSettings& settings, std::vector<TextRequest> wanted,
            ThreadPool& with_threads, const Tokenizer& with, const LanguageModel& of) {
    Engine engine(of, with, {with_threads}, settings);
    Texts texts;
    engine.on_prompt_read = [&](uint64_t, const LogProbabilities&) { ++prompts_read; };
    engine.on_reset = [&](const std::string& message) { resets.push_back(message); };
    engine.on_token = [&](const WrittenToken& one) { shown[one.request] += one.piece; };
    engine.on_end = [&](GeneratedText text) {
      const auto key = std::make_pair(text.request, text.sample);
      EXPECT_TRUE(texts.emplace(key, std::move(text)).second) << "a text ended twice";
    };
    size_t next = 0;
    engine.run([&]() -> std::optional<TextRequest> {
      EXPECT_TRUE(engine.has_room());
      if (next == wanted.size()) return std::nullopt;
      return std::move(wanted[next++]);
    });
    EXPECT_EQ(next, wanted.size());
    EXPECT_FALSE(engine.step());
    return texts;
  }
  Texts run(const EngineSettings& settings, std::vector<TextRequest> wanted) {
    return run(settings, std::move(wanted), threads, tokenizer, model);
  }
  GeneratedText run_one(const EngineSettings& settings, TextRequest wanted) {
    std::vector<TextRequest> all;
    all.push_back(std::move(wanted));
    Texts texts = run(settings, std::move(all));
    EXPECT_EQ(texts.size(), 1u);
    return std::move(texts.begin()->second);
  }
};

bool same_numbers(const SequenceState& a, const SequenceState& b) {
  const auto x = a.fixed(), y = b.fixed();
  return a.position == b.position && x.size() == y.size() &&
         std::memcmp(x.data(), y.data(), x.size_bytes()) == 0;
}

void expect_same_texts(const Texts& found, const Texts& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (const auto& [key, text] : found) {
    SCOPED_TRACE(cat("request ", key.first, ", sample ", key.second));
    const GeneratedText& other = expected.at(key);
    EXPECT_EQ(text.text, other.text);
    EXPECT_EQ(text.tokens, other.tokens);
    EXPECT_EQ(text.ended, other.ended);
    EXPECT_EQ(text.pending, other.pending);
    EXPECT_EQ(text.sampler.state(), other.sampler.state());
    EXPECT_TRUE(same_numbers(text.state, other.state));
  }
}

TEST_F(EngineTest, BatchOrderAndThreadsDoNotShow) {
  EngineSettings settings{.stops = {"zz"}, .tokens = 25, .batch = 4, .batch_invariant = true};
  const Texts expected = run(settings, requests());
  EXPECT_EQ(expected.size(), 17u);
  for (const int64_t batch : {1, 2, 12, 13, 64}) {
    SCOPED_TRACE(cat("batch ", batch));
    settings.batch = batch;
    ThreadPool others(batch == 2 ? 3 : batch == 13 ? 2 : 1);
    std::vector<TextRequest> wanted = requests();
    std::rotate(wanted.begin(), wanted.begin() + batch % 5, wanted.end());
    if (batch % 2) std::ranges::reverse(wanted);
    expect_same_texts(run(settings, std::move(wanted), others, tokenizer, model), expected);
  }
  // The model is one on which a sum in another order shows.
  settings.batch_invariant = false;
  settings.batch = 1;
  const Texts one = run(settings, requests());
  settings.batch = 64;
  const Texts many = run(settings, requests());
  int differ = 0;
  for (const auto& [key, text] : one) differ += text.text != many.at(key).text;
  EXPECT_GT(differ, 0);
}

TEST_F(EngineTest, TextsOfARequestShareItsPrompt) {
  const EngineSettings settings{.tokens = 20, .batch = 3, .batch_invariant = true};
  std::vector<TextRequest> together, apart;
  together.push_back(request(4, 30, 7));
  for (size_t i = 0; i < 7; ++i) {
    apart.push_back(request(4, 30));
    apart.back().id = i;
    apart.back().samplers = {sampler(400 + i)};
  }
  const Texts shared = run(settings, std::move(together));
  EXPECT_EQ(prompts_read, 1);
  const Texts single = run(settings, std::move(apart));
  EXPECT_EQ(prompts_read, 1 + 7);
  ASSERT_EQ(shared.size(), 7u);
  for (size_t i = 0; i < 7; ++i) {
    const GeneratedText &one = shared.at({4, i}), &other = single.at({i, 0});
    EXPECT_EQ(one.text, other.text);
    EXPECT_EQ(one.sampler.state(), other.sampler.state());
    EXPECT_TRUE(same_numbers(one.state, other.state));
  }
  EXPECT_NE(shared.at({4, 0}).text, shared.at({4, 1}).text);
}

TEST_F(EngineTest, WritesWhatASequenceAndASamplerWriteByHand) {
  const GeneratedText found = run_one({.tokens = 50}, request(3, 600));
  Sequence sequence(model, {threads});
  Sampler by_hand = sampler(300);
  sequence.read(prompt(3, 600));
  std::string text;
  int32_t token = 0;
  for (int i = 0; i < 50; ++i) {
    if (i) sequence.read({&token, 1});
    token = by_hand.next(sequence.logits());
    text += char(token);
  }
  EXPECT_EQ(found.text, text);
  EXPECT_EQ(shown[3], text);
  EXPECT_EQ(found.tokens, 50);
  EXPECT_EQ(found.ended, Ended::token_limit);
  EXPECT_EQ(found.pending, token);
  EXPECT_EQ(found.sampler.state(), by_hand.state());
  EXPECT_TRUE(same_numbers(found.state, sequence.state()));
}

TEST_F(EngineTest, ATextGoesOnFromItsPendingTokenAndSampler) {
  const GeneratedText whole = run_one({.tokens = 60}, request(2, 33));
  for (const int64_t first : {1, 15, 59}) {
    GeneratedText part = run_one({.tokens = first}, request(2, 33));
    EXPECT_EQ(part.tokens, first);
    ASSERT_TRUE(part.pending);
    TextRequest rest{9, std::move(part.state), {*part.pending}, {part.sampler}};
    const GeneratedText end = run_one({.tokens = 60 - first}, std::move(rest));
    EXPECT_EQ(part.text + end.text, whole.text) << first;
    EXPECT_EQ(end.pending, whole.pending);
    EXPECT_EQ(end.sampler.state(), whole.sampler.state());
    EXPECT_TRUE(same_numbers(end.state, whole.state));
  }
}

TEST_F(EngineTest, NoTokensLeaveAPromptThatWasRead) {
  const GeneratedText none = run_one({.tokens = 0}, request(2, 33));
  EXPECT_EQ(none.text, "");
  EXPECT_EQ(none.tokens, 0);
  EXPECT_EQ(none.ended, Ended::token_limit);
  EXPECT_FALSE(none.pending);
  EXPECT_EQ(none.state.position, 33);
  EXPECT_EQ(none.sampler.state(), sampler(200).state());
  EXPECT_EQ(shown[2], "");
  // Then a prompt that continues reads as one prompt does, up to a cut inside of a chunk.
  Sequence sequence(model, {threads});
  sequence.read(prompt(2, 33));
  EXPECT_TRUE(same_numbers(none.state, sequence.state()));
}

TEST_F(EngineTest, APromptOfOneTokenIsEnough) {
  for (const bool invariant : {false, true}) {
    const GeneratedText found = run_one({.tokens = 1, .batch_invariant = invariant}, request(1, 1));
    Sequence sequence(model, {threads});
    sequence.read(prompt(1, 1));
    EXPECT_EQ(found.pending, sampler(100).next(sequence.logits()));
    EXPECT_TRUE(same_numbers(found.state, sequence.state()));
    EXPECT_EQ(found.tokens, 1);
  }
}

TEST_F(EngineTest, StopTextsEndATextBeforeThem) {
  const std::string whole = run_one({.tokens = 60}, request(2, 33)).text;
  ASSERT_EQ(whole.size(), 60u);
  for (const size_t at : {0u, 1u, 20u, 57u}) {
    shown.clear();
    const std::string stop = whole.substr(at, 3);
    const GeneratedText found =
        run_one({.stops = {"never there", stop}, .tokens = 60}, request(2, 33));
    const size_t first = whole.find(stop);
    EXPECT_EQ(found.text, whole.substr(0, first));
    EXPECT_EQ(shown[2], found.text);
    EXPECT_EQ(found.ended, Ended::stop_text);
    EXPECT_EQ(found.tokens, int64_t(first) + 3);
    EXPECT_EQ(found.pending, int32_t(stop.back()));
    EXPECT_EQ(found.state.position, 33 + int64_t(first) + 2);
  }
  // What may still become a stop text is held back, and given out at the end.
  const GeneratedText held =
      run_one({.stops = {whole.substr(58) + "?"}, .tokens = 60}, request(2, 33));
  EXPECT_EQ(held.text, whole);
  EXPECT_EQ(held.ended, Ended::token_limit);
}

TEST_F(EngineTest, AnEndOfTheDocumentEndsAText) {
  const std::string whole = run_one({.tokens = 60}, request(2, 33)).text;
  const EndingTokenizer ending(whole[30]);
  std::vector<TextRequest> wanted;
  wanted.push_back(request(2, 33));
  const Texts texts = run({.tokens = 60}, std::move(wanted), threads, ending, model);
  const GeneratedText& found = texts.at({2, 0});
  const size_t first = whole.find(whole[30]);
  EXPECT_EQ(found.text, whole.substr(0, first));
  EXPECT_EQ(found.ended, Ended::end_of_document);
  EXPECT_EQ(found.tokens, int64_t(first) + 1);
  EXPECT_EQ(found.pending, int32_t(whole[30]));
}

TEST_F(EngineTest, OverflowStopsResetsOrEndsAText) {
  const Rwkv7 exploding = overflowing();
  const auto run_with = [&](OnOverflow policy, int64_t prompt_tokens) {
    resets.clear();
    std::vector<TextRequest> wanted;
    for (const uint64_t id : {0, 1}) wanted.push_back(request(id, prompt_tokens));
    for (TextRequest& one : wanted) one.state = exploding.fresh_state();
    return run({.tokens = 400, .batch = 2, .on_overflow = policy}, std::move(wanted), threads,
               tokenizer, exploding);
  };
  for (const int64_t prompt_tokens : {3, 600}) {
    SCOPED_TRACE(cat(prompt_tokens, " tokens in the prompt"));
    EXPECT_FAULT(run_with(OnOverflow::stop, prompt_tokens), Fault::overflow, "in layer 1");
    EXPECT_TRUE(resets.empty());
    const Texts reset = run_with(OnOverflow::reset, prompt_tokens);
    EXPECT_GE(resets.size(), 2u);
    for (const auto& [key, text] : reset) {
      EXPECT_EQ(text.ended, Ended::token_limit);
      EXPECT_EQ(text.tokens, 400);
      EXPECT_EQ(text.state.position, prompt_tokens + 399);
    }
    const Texts ended = run_with(OnOverflow::end, prompt_tokens);
    EXPECT_TRUE(resets.empty());
    ASSERT_EQ(ended.size(), 2u);
    for (const auto& [key, text] : ended) {
      EXPECT_EQ(text.ended, Ended::overflow);
      EXPECT_LT(text.tokens, 400);
    }
  }
}

TEST_F(EngineTest, NothingIsDrawnAfterAPromptThatOverflows) {
  const Rwkv7 exploding =
      open(test::OverflowingRwkv7(ascii_shape, 1e38f, test::OverflowingRwkv7::Decay::one));
  std::vector<TextRequest> wanted;
  wanted.push_back(request(0, 200, 2));
  wanted[0].state = exploding.fresh_state();
  const Texts texts = run({.tokens = 5, .batch = 2, .on_overflow = OnOverflow::end},
                          std::move(wanted), threads, tokenizer, exploding);
  ASSERT_EQ(texts.size(), 2u);
  for (const auto& [key, text] : texts) {
    EXPECT_EQ(text.ended, Ended::overflow);
    EXPECT_EQ(text.tokens, 0);
    EXPECT_EQ(text.text, "");
    EXPECT_FALSE(text.pending);
    EXPECT_EQ(text.sampler.state(), sampler(key.second).state());
  }
}

TEST_F(EngineTest, ATextThatOverflowsLeavesTheOthersAlone) {
  const EngineSettings settings{
      .tokens = 20, .batch = 3, .on_overflow = OnOverflow::end, .batch_invariant = true};
  const auto wanted = [&](bool broken) {
    std::vector<TextRequest> all;
    for (const uint64_t id : {0, 1, 2, 3}) all.push_back(request(id, 20));
    if (broken)
      for (float& number : test::mutable_memories(all[1].state)) number = 3e38f;
    return all;
  };
  Texts whole = run(settings, wanted(false)), with_broken = run(settings, wanted(true));
  const GeneratedText& broken = with_broken.at({1, 0});
  EXPECT_EQ(broken.ended, Ended::overflow);
  EXPECT_EQ(broken.text, "");
  EXPECT_EQ(broken.tokens, 0);
  EXPECT_EQ(broken.sampler.state(), sampler(100).state());
  whole.erase({1, 0}), with_broken.erase({1, 0});
  expect_same_texts(with_broken, whole);
}

TEST_F(EngineTest, TakesRequestsWhileItWrites) {
  Engine engine(model, tokenizer, {threads}, {.tokens = 10, .batch = 2});
  std::vector<uint64_t> ended;
  engine.on_end = [&](const GeneratedText& text) { ended.push_back(text.request); };
  EXPECT_FALSE(engine.step());
  EXPECT_TRUE(engine.has_room());
  engine.submit(request(0, 5));
  EXPECT_TRUE(engine.has_room());
  engine.submit(request(1, 5, 3));
  EXPECT_FALSE(engine.has_room());
  EXPECT_TRUE(engine.step());
  engine.submit(request(2, 5));  // more than there is room for
  while (engine.step()) {
  }
  std::ranges::sort(ended);
  EXPECT_EQ(ended, (std::vector<uint64_t>{0, 1, 1, 1, 2}));
  EXPECT_TRUE(engine.has_room());
}

TEST_F(EngineTest, RefusesWhatItCannotDo) {
  for (const int64_t wrong : {0, -1, 513})
    EXPECT_FAULT(Engine(model, tokenizer, {threads}, {.batch = wrong}), Fault::usage,
                 cat("batch: expected 1 to 512 sequences, found ", wrong));
  Engine engine(model, tokenizer, {threads}, {});
  EXPECT_DEATH(engine.submit(request(0, 0)), "a request has a prompt and texts");
  EXPECT_DEATH(engine.submit(request(0, 1, 0)), "a request has a prompt and texts");
}

// A step with samplers is the step and a sampler by hand; a row that nobody wants, and one that
// overflows.
TEST(SampledStep, DrawsFromEachSequencesOwnLogits) {
  constexpr size_t count = 5, unwanted = 2, broken = 3;
  const test::Scratch scratch;
  const fs::path path = scratch.path() / "model.safetensors";
  const Rwkv7Shape shape = test::small_rwkv7(90);
  write_rwkv7_safetensors(path, RandomRwkv7(shape, 1), StoredType::f32, {});
  const Rwkv7 model(Rwkv7Checkpoint(path), {});
  ThreadPool threads{2};
  SamplerSettings settings{1.1, 0.9, 0, 0.3, 0.2};
  settings.seed = 3;
  std::vector<Sampler> samplers, by_hand;
  std::vector<SequenceState> states;
  for (size_t i = 0; i < count; ++i) {
    samplers.emplace_back(settings, uint64_t(i));
    states.push_back(model.fresh_state());
  }
  std::ranges::fill(test::mutable_memories(states[broken]),
                    std::numeric_limits<float>::quiet_NaN());
  by_hand = samplers;
  std::vector<SequenceState> others;
  std::vector<SequenceState*> places;
  for (const SequenceState& state : states) others.push_back(state.clone());
  for (SequenceState& state : others) places.push_back(&state);
  std::vector<int32_t> tokens{1, 2, 3, 4, 5};
  Tensor<float> logits({count, shape.vocabulary});
  for (int step = 0; step < 20; ++step) {
    std::vector<SequenceInput> batch;
    std::vector<kernel::SampledToken> sampled(count);
    for (size_t i = 0; i < count; ++i) {
      batch.push_back({{&tokens[i], 1}, &states[i]});
      if (i == unwanted) continue;
      batch[i].want = Want::sample, batch[i].sampler = &samplers[i], batch[i].sampled = &sampled[i];
    }
    model.forward(batch, {threads});
    test::step(model, tokens, places, logits.view(), {threads});
    for (size_t i = 0; i < count; ++i) {
      EXPECT_EQ(states[i].position, step + 1);
      if (i == unwanted) continue;
      ASSERT_EQ(sampled[i].broken >= 0, i == broken) << i;
      if (i == broken) continue;
      tokens[i] = by_hand[i].next({logits.view().at(int64_t(i)), size_t(shape.vocabulary)});
      ASSERT_EQ(sampled[i].token, tokens[i]) << "step " << step << ", sequence " << i;
    }
  }
  EXPECT_EQ(samplers[unwanted].state(), by_hand[unwanted].state());
  EXPECT_EQ(samplers[broken].state(), (SamplerState{3, broken, 0, {}}));
  EXPECT_EQ(samplers[0].state(), by_hand[0].state());
}

TEST(TextWriter, GivesOutWholeCharactersAndAllAtTheEnd) {
  const ByteTokenizer tokenizer;
  TextWriter writer(tokenizer, {{"end"}, 9});
  EXPECT_EQ(writer.take(0xc3), "");
  EXPECT_EQ(writer.take(0xa4), "\xc3\xa4");
  EXPECT_EQ(writer.take('e'), "");
  EXPECT_EQ(writer.take('n'), "");
  EXPECT_EQ(writer.take('x'), "enx");
  EXPECT_EQ(writer.take('e'), "");
  EXPECT_FALSE(writer.ended());
  EXPECT_EQ(writer.take(0xe2), "");
  EXPECT_EQ(writer.take(0x82), "");
  EXPECT_EQ(writer.take('y'), "e\xef\xbf\xbdy");
  EXPECT_EQ(writer.tokens(), 9);
  EXPECT_EQ(writer.ended(), Ended::token_limit);
  TextWriter cut(tokenizer, {{"end"}, 100});
  EXPECT_EQ(cut.take('e'), "");
  EXPECT_EQ(cut.take('n'), "");
  EXPECT_EQ(cut.take(0xe2), "");
  EXPECT_EQ(cut.end(Ended::overflow), "en\xef\xbf\xbd");
  EXPECT_EQ(cut.ended(), Ended::overflow);
  EXPECT_EQ(cut.tokens(), 3);
  for (const Ended how :
       {Ended::end_of_document, Ended::stop_text, Ended::token_limit, Ended::overflow})
    EXPECT_FALSE(name_of(how).empty());
}

}  // namespace
}  // namespace deltasane
