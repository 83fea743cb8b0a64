// What single requests want of the engine: log probabilities, states along the prompt, limits of
// their own, an end before the others.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "infer/engine/engine.h"
#include "model/registry.h"
#include "text/byte_tokenizer.h"

namespace deltasane {
namespace {

struct EngineRequest : testing::Test {
  ThreadPool threads{2};
  ByteTokenizer tokenizer;
  std::unique_ptr<LanguageModel> model =
      open_model(fs::path(DELTASANE_SOURCE) / "models/arithmetic-sane-3.safetensors", {});
  Engine engine{*model, tokenizer, {threads}, {.tokens = 12, .batch = 4}};
  std::map<uint64_t, GeneratedText> texts;

  void SetUp() override {
    engine.on_end = [this](GeneratedText text) { texts.emplace(text.request, std::move(text)); };
  }
  TextRequest request(uint64_t id, const std::string& prompt) const {
    return {id, model->fresh_state(), tokenizer.encode(prompt),
            {Sampler(SamplerSettings{.seed = 7})}};
  }
  void run() {
    while (engine.step()) {
    }
  }
};

const std::string question = "User: 12 + 30 = ?\n\nAssistant:";

TEST_F(EngineRequest, LogProbabilitiesAreThoseOfTheModel) {
  TextRequest plain = request(1, question), scored = request(2, question);
  scored.top_written = 3, scored.top_prompt = 2;
  LogProbabilities of_prompt, of_text;
  std::vector<int32_t> written;
  engine.on_prompt_read = [&](uint64_t id, LogProbabilities found) {
    if (id == 2) of_prompt = std::move(found);
  };
  engine.on_token = [&](const WrittenToken& token) {
    EXPECT_EQ(token.log_probabilities != nullptr, token.request == 2);
    if (token.request != 2) return;
    written.push_back(token.token);
    of_text.tokens.push_back(token.log_probabilities->tokens[0]);
    of_text.top.push_back(token.log_probabilities->top[0]);
    EXPECT_EQ(token.log_probabilities->top.size(), 3u);
  };
  engine.submit(std::move(plain));
  engine.submit(std::move(scored));
  run();
  const std::vector<int32_t> ids = tokenizer.encode(question);
  SequenceState state = model->fresh_state();
  std::vector<double> losses(ids.size() - 1);
  score(*model, std::span(ids).first(losses.size()), std::span(ids).subspan(1), state, losses,
        {threads});
  ASSERT_EQ(of_prompt.tokens.size(), losses.size());
  ASSERT_EQ(of_prompt.top.size(), 2 * losses.size());
  for (size_t i = 0; i < losses.size(); ++i) {
    EXPECT_EQ(of_prompt.tokens[i], -losses[i]);
    EXPECT_GE(of_prompt.top[2 * i].log_probability, of_prompt.tokens[i]);
    EXPECT_GE(of_prompt.top[2 * i].log_probability, of_prompt.top[2 * i + 1].log_probability);
  }
  ASSERT_EQ(written.size(), 12u);
  for (size_t i = 0; i < written.size(); ++i) {
    EXPECT_LE(of_text.tokens[i], of_text.top[i].log_probability);
    const bool is_likeliest = of_text.top[i].token == written[i];
    EXPECT_EQ(is_likeliest, of_text.tokens[i] == of_text.top[i].log_probability);
  }
}

TEST_F(EngineRequest, StatesAlongThePromptGoOnToTheSameBits) {
  const std::string prompt = std::string(40, 'a') + question + question;
  const std::vector<int32_t> ids = tokenizer.encode(prompt);
  std::map<int64_t, SequenceState> kept;
  engine.on_state_kept = [&](uint64_t, int64_t after, SequenceState state) {
    EXPECT_EQ(state.position, after);
    kept.emplace(after, std::move(state));
  };
  TextRequest cut = request(2, prompt);
  cut.keep_states_after = {16, 64};
  TextRequest whole = request(1, prompt);
  whole.limits = cut.limits = TextLimits{{}, 0};
  engine.submit(std::move(whole));
  engine.submit(std::move(cut));
  run();
  ASSERT_EQ(kept.size(), 2u);
  EXPECT_TRUE(std::ranges::equal(texts.at(2).state.fixed(), texts.at(1).state.fixed()));
  for (auto& [after, state] : kept) {
    TextRequest rest = request(uint64_t(after), prompt);
    rest.state = std::move(state);
    rest.prompt.assign(ids.begin() + after, ids.end());
    rest.limits = TextLimits{{}, 0};
    engine.submit(std::move(rest));
    run();
    EXPECT_TRUE(std::ranges::equal(texts.at(uint64_t(after)).state.fixed(),
                                   texts.at(1).state.fixed()));
  }
}

TEST_F(EngineRequest, LimitsOfOneAreNotThoseOfOthers) {
  TextRequest shorter = request(1, question), stopped = request(2, question);
  shorter.limits = TextLimits{{}, 3};
  stopped.limits = TextLimits{{" "}, 100};
  engine.submit(std::move(shorter));
  engine.submit(std::move(stopped));
  engine.submit(request(3, question));
  run();
  EXPECT_EQ(texts.at(1).tokens, 3);
  EXPECT_EQ(texts.at(2).ended, Ended::stop_text);
  EXPECT_EQ(texts.at(2).stop, " ");
  EXPECT_EQ(texts.at(3).tokens, 12);
}

TEST_F(EngineRequest, OneIsCancelledAndOthersDoNotNotice) {
  engine.submit(request(1, question));
  run();
  const std::string alone = texts.at(1).text;
  texts.clear();
  engine.submit(request(1, question));
  TextRequest several = request(2, question);
  several.samplers.assign(6, several.samplers[0]);
  engine.submit(std::move(several));  // more texts than rows
  engine.submit(request(3, std::string(2000, 'x')));
  for (int i = 0; i < 4; ++i) engine.step();
  engine.cancel(2);
  engine.cancel(3);
  engine.cancel(99);
  EXPECT_EQ(texts.at(2).ended, Ended::cancelled);
  run();
  EXPECT_EQ(texts.at(1).text, alone);
  EXPECT_EQ(texts.count(3), 0u);
}

TEST_F(EngineRequest, ShortPromptsShareAStepWithASliceOfALongOne) {
  Engine own(*model, tokenizer, {threads},
             {.tokens = 1, .batch = 8, .slice_tokens = 32, .prompt_tokens = 64});
  std::map<uint64_t, int> read_in;
  int step = 0;
  own.on_prompt_read = [&](uint64_t id, const LogProbabilities&) { read_in[id] = step; };
  own.submit(request(1, std::string(100, 'a')));
  own.submit(request(2, std::string(20, 'b')));
  own.submit(request(3, std::string(20, 'c')));
  do ++step;
  while (own.step());
  EXPECT_EQ(read_in, (std::map<uint64_t, int>{{1, 4}, {2, 1}, {3, 2}}));
}

TEST_F(EngineRequest, PromptsWaitForOthersWhileManyTextsAreWritten) {
  Engine own(*model, tokenizer, {threads},
             {.tokens = 1000, .batch = 64, .gather_time = std::chrono::hours(1)});
  std::vector<uint64_t> read;
  own.on_prompt_read = [&](uint64_t id, const LogProbabilities&) { read.push_back(id); };
  TextRequest many = request(1, question);
  many.samplers.assign(16, many.samplers[0]);
  many.limits = TextLimits{{}, 1000, false};
  own.submit(std::move(many));
  own.step();
  EXPECT_EQ(read, std::vector<uint64_t>{1});
  for (uint64_t id = 2; id <= 8; ++id) own.submit(request(id, question));
  for (int i = 0; i < 3; ++i) own.step();
  EXPECT_EQ(read.size(), 1u);
  own.submit(request(9, question));
  own.step();
  EXPECT_EQ(read.size(), 9u);
  own.submit(request(10, question));
  own.cancel(1);  // nobody writes any more but those eight
  own.step();
  EXPECT_EQ(read.size(), 10u);
}

// A short prompt beside many texts is read with their tokens, not in a pass of its own.
TEST_F(EngineRequest, AShortPromptIsReadWithTheTokensOfOthers) {
  const std::string prompt = "User: 7 + 8";
  const auto greedy = [&](uint64_t id) {
    TextRequest one = request(id, prompt);
    one.samplers = {Sampler(SamplerSettings{.temperature = 0})};
    return one;
  };
  engine.submit(greedy(1));
  run();
  const GeneratedText alone = std::move(texts.at(1));
  texts.clear();
  Engine own(*model, tokenizer, {threads},
             {.tokens = 12, .batch = 64, .on_overflow = OnOverflow::end,
              .gather_time = std::chrono::hours(1)});
  std::vector<uint64_t> read, first;
  own.on_prompt_read = [&](uint64_t id, const LogProbabilities&) { read.push_back(id); };
  own.on_token = [&](const WrittenToken& token) {
    if (token.request > 1 && std::ranges::find(first, token.request) == first.end())
      first.push_back(token.request);
  };
  own.on_end = engine.on_end;
  TextRequest many = request(1, question);
  many.samplers.assign(16, many.samplers[0]);
  many.limits = TextLimits{{}, 1000, false};
  own.submit(std::move(many));
  own.step();
  const int64_t before = own.tokens_read();
  own.submit(greedy(2));
  own.submit(greedy(3));
  TextRequest scored = greedy(4);  // more than its text is wanted: it waits for others
  scored.top_written = 1;
  own.submit(std::move(scored));
  for (size_t i = 1; i < prompt.size(); ++i) own.step();
  EXPECT_EQ(own.tokens_read() - before, int64_t(2 * (prompt.size() - 1)));
  own.cancel(3);  // in its prompt
  EXPECT_EQ(texts.at(3).text, "");
  EXPECT_EQ(read, std::vector<uint64_t>{1});
  own.step();
  EXPECT_EQ(read, (std::vector<uint64_t>{1, 2}));
  EXPECT_EQ(first, std::vector<uint64_t>{2});
  for (int i = 0; i < 12; ++i) own.step();
  EXPECT_EQ(texts.at(2).text, alone.text);
  EXPECT_EQ(texts.at(2).tokens, alone.tokens);
  EXPECT_EQ(texts.at(2).state.position, alone.state.position);
  EXPECT_FALSE(texts.contains(4));
}

TEST_F(EngineRequest, ManyTextsWaitForMorePrompts) {
  Engine own(*model, tokenizer, {threads},
             {.tokens = 1000, .batch = 512, .gather_time = std::chrono::hours(1)});
  size_t read = 0;
  own.on_prompt_read = [&](uint64_t, const LogProbabilities&) { ++read; };
  TextRequest many = request(1, question);
  many.samplers.assign(160, many.samplers[0]);
  many.limits = TextLimits{{}, 1000, false};
  own.submit(std::move(many));
  own.step();
  for (uint64_t id = 2; id <= 10; ++id) own.submit(request(id, question));
  own.step();
  EXPECT_EQ(read, 1u);
  own.submit(request(11, question));  // one for each 16
  own.step();
  EXPECT_EQ(read, 11u);
}

// A grammar that allows nothing more ends a text with a token of it, which the state has yet to read.
TEST_F(EngineRequest, TheLastTokenOfAGrammarIsPartOfTheText) {
  TextRequest wanted = request(1, question);
  wanted.constraint.emplace(
      std::make_shared<const Grammar>(parse_grammar("root ::= \"ab\"\n")),
      std::make_shared<const SortedVocabulary>(tokenizer, model->vocabulary()));
  engine.submit(std::move(wanted));
  run();
  const GeneratedText& text = texts.at(1);
  EXPECT_EQ(text.text, "ab");
  EXPECT_EQ(text.state.position, int64_t(question.size()) + 1);
  EXPECT_EQ(text.unread, tokenizer.encode("b"));
}

TEST_F(EngineRequest, PromptsOfALengthAreReadInTheirOrder) {
  Engine one_by_one(*model, tokenizer, {threads}, {.tokens = 1, .batch = 4, .prompts_read = 1});
  std::vector<uint64_t> order;
  one_by_one.on_prompt_read = [&](uint64_t id, const LogProbabilities&) { order.push_back(id); };
  for (const uint64_t id : {1, 2, 3}) one_by_one.submit(request(id, std::string(900, 'a')));
  while (one_by_one.step()) {
  }
  EXPECT_EQ(order, (std::vector<uint64_t>{1, 2, 3}));
}

// Prompts of eight slices and one of a part of a slice.
TEST_F(EngineRequest, AShortPromptWaitsForASliceWhateverElseIsRead) {
  EngineSettings settings{.tokens = 3, .batch = 64, .slice_tokens = 32, .prompt_tokens = 32};
  const auto run_beside = [&](uint64_t others, int steps_before, std::map<uint64_t, int>& began) {
    Engine own(*model, tokenizer, {threads}, settings);
    int step = 0;
    std::map<uint64_t, GeneratedText> found;
    own.on_token = [&](const WrittenToken& token) { began.emplace(token.request, step); };
    own.on_end = [&](GeneratedText text) { found.emplace(text.request, std::move(text)); };
    for (uint64_t id = 1; id <= others; ++id) own.submit(request(id, std::string(8 * 32, 'a')));
    for (; step < steps_before; ++step) own.step();
    own.submit(request(9, question));
    while (own.step()) ++step;
    return found;
  };
  for (const bool is_invariant : {false, true}) {
    settings.batch_invariant = is_invariant;
    settings.prompts_read = is_invariant ? 1 : 512;
    std::map<uint64_t, int> unused;
    const auto alone = run_beside(1, 20, unused);
    for (const int steps_before : {1, 2, 3}) {
      std::map<uint64_t, int> began;
      const auto found = run_beside(5, steps_before, began);
      EXPECT_LE(began.at(9), steps_before + 1);
      EXPECT_LT(began.at(1), began.at(2));  // of one length: the oldest first
      if (!is_invariant) continue;
      for (const uint64_t id : {1, 9})
        EXPECT_TRUE(std::ranges::equal(found.at(id).state.fixed(), alone.at(id).state.fixed()));
    }
  }
}

// However many short ones come.
TEST_F(EngineRequest, ALongPromptHasHalfOfTheSlices) {
  Engine own(*model, tokenizer, {threads},
             {.tokens = 1, .batch = 64, .slice_tokens = 32, .prompt_tokens = 32});
  bool is_read = false;
  own.on_prompt_read = [&](uint64_t id, const LogProbabilities&) { is_read |= id == 0; };
  own.submit(request(0, std::string(10 * 32, 'a')));
  uint64_t steps = 0;
  for (; !is_read && steps < 100; own.step()) own.submit(request(++steps, std::string(30, 'b')));
  EXPECT_LE(steps, 20u);
}

}  // namespace
}  // namespace deltasane
