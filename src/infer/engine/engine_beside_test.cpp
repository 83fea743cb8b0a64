// What a step wrote is told while the next one computes.
#include <gtest/gtest.h>

#include <map>

#include "infer/engine/engine.h"
#include "model/registry.h"
#include "text/byte_tokenizer.h"

namespace deltasane {
namespace {

// A model whose device computes while the host does other work.
class DeviceModel final : public LanguageModel {
 public:
  explicit DeviceModel(const LanguageModel& real)
      : LanguageModel(real.description(), StateLayout(*real.state_layout()), real.sane(), {}),
        real_(real) {}
  const ModelCheckpoint& checkpoint() const override { return real_.checkpoint(); }
  std::string weight_type() const override { return real_.weight_type(); }
  uint64_t weight_bytes() const override { return real_.weight_bytes(); }
  uint64_t read_bytes() const override { return real_.read_bytes(); }
  int64_t prefill_chunk() const override { return real_.prefill_chunk(); }

  mutable bool is_computing = false;
  mutable int64_t steps = 0;
  mutable std::vector<Want> wants{};  // of inputs of several tokens

 private:
  void run(std::span<const SequenceInput> batch, const kernel::Cpu& cpu) const override {
    real_.forward(batch, cpu);
  }
  void run_beside(std::span<const SequenceInput> batch, const kernel::Cpu& cpu,
                  const Beside& beside) const override {
    ++steps;
    for (const SequenceInput& one : batch)
      if (one.tokens.size() > 1) wants.push_back(one.want);
    real_.forward(batch, cpu);
    is_computing = true;
    beside();
    is_computing = false;
  }
  const LanguageModel& real_;
};

struct EngineBeside : testing::Test {
  ThreadPool threads{2};
  ByteTokenizer tokenizer;
  std::unique_ptr<LanguageModel> real =
      open_model(fs::path(DELTASANE_SOURCE) / "models/arithmetic-sane-3.safetensors", {});
  DeviceModel model{*real};

  struct Told {
    std::map<std::pair<uint64_t, size_t>, std::string> pieces, texts;
    std::map<std::pair<uint64_t, size_t>, int64_t> positions;
    int64_t tokens = 0, tokens_beside = 0;
  };
  void listen(Engine& engine, Told& told) const {
    engine.on_token = [&](const WrittenToken& token) {
      const std::pair key(token.request, token.sample);
      EXPECT_FALSE(told.texts.contains(key)) << "a token after the end";
      told.pieces[key] += token.piece;
      ++told.tokens, told.tokens_beside += model.is_computing;
    };
    engine.on_end = [&](GeneratedText text) {
      const std::pair key(text.request, text.sample);
      EXPECT_TRUE(told.texts.emplace(key, text.text).second) << "ended twice";
      told.positions[key] = text.state.position;
    };
  }
  TextRequest request(uint64_t id, int64_t tokens, size_t texts) const {
    TextRequest one{id, model.fresh_state(), tokenizer.encode("User: 12 + 30 = ?\n\nAssistant:"), {}};
    for (size_t i = 0; i < texts; ++i)
      one.samplers.emplace_back(SamplerSettings{.seed = 7}, 10 * id + i);
    one.limits = TextLimits{{"4", "\n"}, tokens, true};
    return one;
  }
  // Texts of many lengths, more than there is room for; some end with their first token.
  Told run(bool tells_beside) {
    Engine engine(model, tokenizer, {threads},
                  {.batch = 5, .batch_invariant = true, .tells_beside = tells_beside});
    Told told;
    listen(engine, told);
    uint64_t next = 0;
    engine.run([&]() -> std::optional<TextRequest> {
      if (next == 12) return std::nullopt;
      const uint64_t id = next++;
      return request(id, int64_t(id * 5 % 23), 1 + id % 3);
    });
    return told;
  }
};

TEST_F(EngineBeside, TextsAndStatesAreTheSame) {
  const Told at_once = run(false), beside = run(true);
  EXPECT_EQ(at_once.texts.size(), 24u);
  EXPECT_EQ(beside.texts, at_once.texts);
  EXPECT_EQ(beside.positions, at_once.positions);
  EXPECT_EQ(beside.pieces, at_once.pieces);
  EXPECT_EQ(beside.tokens, at_once.tokens);
}

TEST_F(EngineBeside, TokensAreToldWhileTheNextStepComputes) {
  Engine engine(model, tokenizer, {threads}, {.tells_beside = true});
  Told told;
  listen(engine, told);
  TextRequest wanted = request(1, 9, 1);
  wanted.limits = TextLimits{{}, 9, false};
  engine.submit(std::move(wanted));
  while (engine.step()) {
  }
  EXPECT_EQ(told.tokens, 9);
  EXPECT_EQ(told.tokens_beside, 8);  // the last one has no next step
  EXPECT_EQ(model.steps, 9);         // none for tokens that nobody wants
}

// A prompt that is scored without its likeliest tokens asks for losses, which need no logits here.
TEST_F(EngineBeside, AScoredPromptAsksForLosses) {
  Engine engine(model, tokenizer, {threads}, {.on_overflow = OnOverflow::end});
  LogProbabilities scores;
  engine.on_prompt_read = [&](uint64_t, LogProbabilities found) { scores = std::move(found); };
  TextRequest wanted = request(1, 1, 1);
  wanted.top_prompt = 0;
  const std::vector<int32_t> ids = wanted.prompt;
  engine.submit(std::move(wanted));
  while (engine.step()) {
  }
  EXPECT_EQ(model.wants, std::vector<Want>{Want::losses});
  SequenceState state = model.fresh_state();
  std::vector<double> losses(ids.size() - 1);
  score(*real, std::span(ids).first(losses.size()), std::span(ids).subspan(1), state, losses,
        {threads});
  ASSERT_EQ(scores.tokens.size(), losses.size());
  for (size_t i = 0; i < losses.size(); ++i) EXPECT_EQ(scores.tokens[i], -losses[i]);
}

TEST_F(EngineBeside, ACancelledTextIsToldAsFarAsItIsWritten) {
  Engine engine(model, tokenizer, {threads}, {.batch = 2, .tells_beside = true});
  Told told;
  listen(engine, told);
  for (const uint64_t id : {1, 2}) {
    TextRequest wanted = request(id, 1000, 1);
    wanted.limits = TextLimits{{}, 1000, false};
    engine.submit(std::move(wanted));
  }
  for (int i = 0; i < 6; ++i) engine.step();
  engine.cancel(1);
  ASSERT_EQ(told.texts.size(), 1u);
  EXPECT_EQ(told.texts.begin()->second, told.pieces.begin()->second);
  const int64_t steps = model.steps;
  engine.cancel();
  EXPECT_EQ(told.texts.size(), 2u);
  EXPECT_EQ(told.texts, told.pieces);
  EXPECT_FALSE(engine.step());
  EXPECT_EQ(model.steps, steps);
}

}  // namespace
}  // namespace deltasane
