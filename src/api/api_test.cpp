// The public header, and nothing else of the project but the support for tests: as another program
// sees it.
#include <gtest/gtest.h>

#include <deltasane/deltasane.h>
#include <cmath>
#include <thread>

#include "support/scratch.h"

namespace {

using namespace deltasane::v0;

const std::string folder = DELTASANE_SOURCE "/models/";
const std::string with_sane = folder + "arithmetic-sane-3.safetensors";
const std::string baseline = folder + "arithmetic-baseline.safetensors";

Model small_model(ModelOptions options = {}) {
  options.threads = 2;
  return Model::open(with_sane, options);
}

template <class Body>
Fault fault_of(Body&& body) {
  try {
    body();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find(": "), std::string::npos) << error.what();
    return error.fault();
  }
  ADD_FAILURE() << "expected an Error, found none";
  return Fault::internal;
}

SamplingSettings greedy(std::int64_t tokens) {
  SamplingSettings settings;
  settings.temperature = 0, settings.max_tokens = tokens;
  return settings;
}

SamplingSettings drawn(std::int64_t tokens, std::uint64_t seed) {
  SamplingSettings settings;
  settings.max_tokens = tokens, settings.seed = seed, settings.frequency_penalty = 0.1;
  return settings;
}

TEST(Api, DescribesAModel) {
  const ModelDescription found = small_model().description();
  EXPECT_EQ(found.name, "arithmetic-sane-3.safetensors");
  EXPECT_EQ(found.architecture, "rwkv7");
  EXPECT_EQ(found.layers, 6);
  EXPECT_EQ(found.channels, 256);
  EXPECT_EQ(found.vocabulary, 256);
  EXPECT_GT(found.parameters, 4'000'000);
  EXPECT_EQ(found.weights, "bf16");
  EXPECT_EQ(found.device, "cpu");
  EXPECT_EQ(found.sane, "trained SANE with alpha 3, chunk 16");
}

TEST(Api, TakesTheOptionsOfAModel) {
  ModelOptions options;
  options.without_sane = true, options.weights = "f32";
  EXPECT_EQ(small_model(options).description().sane, "no SANE");
  EXPECT_EQ(small_model(options).description().weights, "f32");
  options = {};
  options.sane_alpha = 2;
  EXPECT_EQ(Model::open(baseline, options).description().sane,
            "run-time SANE with alpha 2, chunk 16");
}

TEST(Api, EncodesAndDecodes) {
  const Tokenizer tokenizer = small_model().tokenizer();
  EXPECT_EQ(tokenizer.encode("1+2"), (Tokens{'1', '+', '2'}));
  EXPECT_EQ(tokenizer.decode({'=', '3'}), "=3");
  EXPECT_EQ(tokenizer.vocabulary(), 256);
  EXPECT_EQ(Tokenizer::open("byte").encode("\xff"), (Tokens{255}));
  EXPECT_EQ(Tokenizer::open(with_sane).encode("\xff"), (Tokens{255}));
}

TEST(Api, ReadsAPromptInPiecesAsInOne) {
  const Model model = small_model();
  const Tokens text = model.tokenizer().encode("What is 12 plus 30? It is 42. What is 7 minus 2?");
  State whole = model.fresh_state(), pieces = model.fresh_state();
  const std::vector<float> logits = model.forward(text, whole);
  model.forward(Tokens(text.begin(), text.begin() + 16), pieces);
  EXPECT_EQ(pieces.position(), 16);
  EXPECT_EQ(model.forward(Tokens(text.begin() + 16, text.end()), pieces), logits);
  EXPECT_EQ(logits.size(), 256u);
  EXPECT_EQ(whole.position(), std::int64_t(text.size()));
}

TEST(Api, AStateIsAValue) {
  const Model model = small_model();
  State state = model.fresh_state();
  model.forward(model.tokenizer().encode("5 plus 6"), state);
  State copy = state.clone();
  const std::vector<float> once = model.forward({' '}, copy);
  EXPECT_EQ(state.position(), 8);
  EXPECT_EQ(copy.position(), 9);
  copy = state;
  EXPECT_EQ(model.forward({' '}, copy), once);
  State moved = std::move(copy);
  EXPECT_EQ(moved.position(), 9);
  copy = state;
  EXPECT_EQ(copy.position(), 8) << "a state that was moved from can be assigned";
}

TEST(Api, AStateFileContinuesWithTheSameBits) {
  const deltasane::test::Scratch scratch;
  const std::string path = scratch.path() / "sum.state";
  const Model model = small_model();
  State state = model.fresh_state();
  const std::string first = model.generate("What is 12 plus 30?", state, drawn(5, 7)).text;
  state.save(path);
  State loaded = small_model().load_state(path);
  EXPECT_EQ(loaded.position(), state.position());
  EXPECT_EQ(loaded.pending(), state.pending());
  State other = model.load_state(path);
  const std::string rest = model.generate("", state, drawn(20, 7)).text;
  EXPECT_EQ(model.generate("", other, drawn(20, 7)).text, rest);
  State at_once = model.fresh_state();
  EXPECT_EQ(model.generate("What is 12 plus 30?", at_once, drawn(25, 7)).text, first + rest);
  EXPECT_EQ(at_once.position(), state.position());
}

TEST(Api, ScoresWhatForwardPredicts) {
  const Model model = small_model();
  const Tokens text = model.tokenizer().encode("3 plus 4 is 7.");
  State scored = model.fresh_state(), read = model.fresh_state(), pieces = model.fresh_state();
  const std::vector<double> losses = model.score(text, scored);
  ASSERT_EQ(losses.size(), text.size() - 1);
  EXPECT_EQ(scored.position(), std::int64_t(text.size()) - 1);
  EXPECT_EQ(scored.pending(), text.back());
  const std::vector<float> logits = model.forward({text[0]}, read);
  double sum = 0;
  for (const float logit : logits) sum += std::exp(double(logit));
  EXPECT_NEAR(losses[0], std::log(sum) - double(logits[size_t(text[1])]), 1e-4);

  std::vector<double> joined = model.score(Tokens(text.begin(), text.begin() + 1), pieces);
  EXPECT_TRUE(joined.empty());
  for (const double loss : model.score(Tokens(text.begin() + 1, text.end()), pieces))
    joined.push_back(loss);
  EXPECT_EQ(joined, losses);
  EXPECT_EQ(model.forward({}, scored).size(), 256u) << "reads the pending token";
  EXPECT_EQ(scored.pending(), std::nullopt);
}

TEST(Api, GeneratesTextPieceByPiece) {
  const Model model = small_model();
  State state = model.fresh_state();
  std::string shown;
  const Generated made =
      model.generate("What is 12 plus 30?", state, greedy(12), [&](std::string_view piece) {
        shown += piece;
        return true;
      });
  EXPECT_EQ(made.text, shown);
  EXPECT_EQ(made.prompt_tokens, 19);
  EXPECT_EQ(made.tokens, 12);
  EXPECT_EQ(made.ended, Ended::max_tokens);
  EXPECT_EQ(state.position(), 19 + 11) << "the last token is pending";
  EXPECT_TRUE(state.pending().has_value());
}

TEST(Api, GivesTheLogitsAfterEveryToken) {
  const Model model = small_model();
  const Tokens text = model.tokenizer().encode("3 plus 4 is 7. Yes!");
  State all = model.fresh_state(), last = model.fresh_state(), scored = model.fresh_state();
  const std::vector<float> logits = model.forward_all(text, all);
  ASSERT_EQ(logits.size(), text.size() * 256);
  EXPECT_EQ(all.position(), std::int64_t(text.size()));
  const std::vector<double> losses = model.score(text, scored);
  for (std::size_t i = 0; i < losses.size(); ++i) {
    double sum = 0;
    for (std::size_t j = 0; j < 256; ++j) sum += std::exp(double(logits[i * 256 + j]));
    EXPECT_NEAR(losses[i], std::log(sum) - double(logits[i * 256 + size_t(text[i + 1])]), 1e-4);
  }
  model.forward(text, last);
  EXPECT_EQ(model.forward({'.'}, all), model.forward({'.'}, last)) << "the states are the same";
  EXPECT_EQ(fault_of([&] { model.forward_all({256}, all); }), Fault::argument);
  EXPECT_EQ(all.position(), std::int64_t(text.size()) + 1);
}

TEST(Api, ShowsTheNumbersOfAState) {
  const Model model = small_model();
  State state = model.fresh_state();
  model.forward(model.tokenizer().encode("5 plus 6"), state);
  std::int64_t floats = 0, memories = 0;
  for (const StatePart& part : state.parts()) {
    std::int64_t elements = 1;
    for (const std::int64_t size : part.shape) elements *= size;
    EXPECT_EQ(elements, std::int64_t(part.values.size())) << part.name;
    floats += elements;
    if (part.kind != "memory") continue;
    ++memories;
    EXPECT_EQ(part.shape, (std::vector<std::int64_t>{4, 64, 64}));
    EXPECT_NE(part.values, std::vector<float>(part.values.size(), 0.0f));
  }
  EXPECT_EQ(memories, 6);
  EXPECT_EQ(4 * floats, model.description().state_bytes);
}

TEST(Api, GeneratesTextsAtOnceAsOneByOne) {
  const Model model = small_model();
  const std::vector<std::string> prompts{"What is 12 plus 30?", "7 minus 2", "What is 5 plus 5?"};
  const std::vector<Generated> all = model.generate(prompts, 2, drawn(10, 4));
  ASSERT_EQ(all.size(), 6u);
  EXPECT_EQ(all[0].prompt_tokens, 19);
  EXPECT_EQ(model.generate(std::vector<std::string>{prompts[1]}, 1, drawn(10, 4))[0].text,
            all[2].text);
  EXPECT_EQ(fault_of([&] { model.generate(prompts, 0, drawn(10, 4)); }), Fault::argument);
  EXPECT_EQ(fault_of([&] { model.generate(std::vector<std::string>{""}, 1, drawn(10, 4)); }),
            Fault::argument);
}

TEST(Api, WritesAnAnswerToAConversation) {
  const Model model = small_model();
  const Tokenizer tokenizer = model.tokenizer();
  const ChatPrompt prompt = tokenizer.chat({{"system", "Add."}, {"user", "12+30=?"}});
  EXPECT_EQ(tokenizer.decode(prompt.tokens), "System: Add.\n\nUser: 12+30=?\n\nAssistant:");
  EXPECT_EQ(prompt.beginning, "");
  ASSERT_FALSE(prompt.stop.empty());
  EXPECT_EQ(tokenizer.chat({{"user", "1"}}, "think").beginning, " <think");
  State asked = model.fresh_state(), as_text = model.fresh_state();
  const Generated made = model.generate(prompt.tokens, asked, greedy(6));
  EXPECT_EQ(made.text, model.generate(tokenizer.decode(prompt.tokens), as_text, greedy(6)).text);
  EXPECT_EQ(made.prompt_tokens, std::int64_t(prompt.tokens.size()));
  EXPECT_EQ(fault_of([&] { tokenizer.chat({}); }), Fault::argument);
  EXPECT_EQ(fault_of([&] { tokenizer.chat({{"assistant", "1"}}); }), Fault::argument);
  EXPECT_EQ(fault_of([&] { tokenizer.chat({{"tool", "1"}}); }), Fault::argument);
  EXPECT_EQ(fault_of([&] { tokenizer.chat({{"user", "1"}}, "loud"); }), Fault::usage);
  EXPECT_EQ(fault_of([&] { tokenizer.chat({{"user", "1"}}, "plain", "other"); }), Fault::usage);
  EXPECT_EQ(fault_of([&] { model.generate(Tokens{256}, asked); }), Fault::argument);
}

TEST(Api, EndsAtAStopTextAndWhereTheCallerSays) {
  const Model model = small_model();
  State state = model.fresh_state();
  const std::string all = model.generate("What is 12 plus 30?", state, greedy(12)).text;
  ASSERT_GE(all.size(), 4u);
  SamplingSettings settings = greedy(12);
  settings.stop = {all.substr(2, 2)};
  state = model.fresh_state();
  const Generated stopped = model.generate("What is 12 plus 30?", state, settings);
  EXPECT_EQ(stopped.text, all.substr(0, all.find(settings.stop[0])));
  EXPECT_EQ(stopped.ended, Ended::stop_text);
  state = model.fresh_state();
  const Generated cut = model.generate("What is 12 plus 30?", state, greedy(12),
                                       [](std::string_view) { return false; });
  EXPECT_EQ(cut.text, all.substr(0, 1));
  EXPECT_EQ(cut.ended, Ended::callback);
  EXPECT_EQ(cut.text + model.generate("", state, greedy(11)).text, all);
}

TEST(Api, LetsTheCallersExceptionsThrough) {
  const Model model = small_model();
  State state = model.fresh_state();
  EXPECT_THROW(model.generate("1", state, greedy(3), [](std::string_view) -> bool { throw 5; }),
               int);
  EXPECT_EQ(model.forward({}, state).size(), 256u) << "state and model are still good";
}

TEST(Api, NamesEveryFault) {
  const Model model = small_model();
  ModelOptions options;
  EXPECT_EQ(fault_of([] { Model::open(folder + "gone.pth"); }), Fault::file);
  options.weights = "f64";
  EXPECT_EQ(fault_of([&] { Model::open(with_sane, options); }), Fault::usage);
  options = {};
  options.device = "tpu";
  EXPECT_EQ(fault_of([&] { Model::open(with_sane, options); }), Fault::usage);
  EXPECT_EQ(fault_of([] { Tokenizer::open(folder + "gone.txt"); }), Fault::file);
  EXPECT_EQ(fault_of([&] { model.load_state(folder + "gone.state"); }), Fault::file);

  State state = model.fresh_state();
  Tokens long_text(600, 'a');
  long_text.back() = 256;
  EXPECT_EQ(fault_of([&] { model.forward(long_text, state); }), Fault::argument);
  EXPECT_EQ(fault_of([&] { model.score({-1}, state); }), Fault::argument);
  EXPECT_EQ(state.position(), 0) << "nothing was read";
  EXPECT_EQ(fault_of([&] { model.forward({}, state); }), Fault::argument);
  EXPECT_EQ(fault_of([&] { model.generate("", state); }), Fault::argument);
  SamplingSettings settings;
  settings.top_p = 2;
  EXPECT_EQ(fault_of([&] { model.generate("1", state, settings); }), Fault::usage);
  State others = small_model().fresh_state();
  EXPECT_EQ(fault_of([&] { model.forward({1}, others); }), Fault::argument);
  State moved = std::move(others);
  EXPECT_EQ(fault_of([&] { model.forward({1}, others); }), Fault::argument);
  EXPECT_EQ(fault_of([&] { others.save(folder + "gone.state"); }), Fault::argument);
}

TEST(Api, ThreadsShareAModel) {
  const Model model = small_model();
  std::string alone, first, second;
  const auto write = [&](std::string& text) {
    State state = model.fresh_state();
    text = model.generate("What is 12 plus 30?", state, drawn(30, 3)).text;
  };
  write(alone);
  std::thread one([&] { write(first); }), two([&] { write(second); });
  one.join();
  two.join();
  EXPECT_EQ(first, alone);
  EXPECT_EQ(second, alone);
}

TEST(Api, AStateOutlivesItsModel) {
  std::optional<State> state;
  {
    const Model model = small_model();
    state = model.fresh_state();
    model.forward({'1'}, *state);
  }
  EXPECT_EQ(State(*state).position(), 1);
}

TEST(Api, HasAVersion) { EXPECT_NE(std::string(version()).find('.'), std::string::npos); }

}  // namespace
