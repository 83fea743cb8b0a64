// Long streams: what is recorded is what the state was, killed or not.
#include "eval/stream/stream_run.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <csignal>

#include "base/random.h"
#include "eval/stream/problem_probe.h"
#include "eval/stream/stream_folder.h"
#include "infer/state_scan.h"
#include "probe/diagnosis.h"
#include "text/byte_tokenizer.h"
#include "toy/fixture.h"

namespace deltasane::toy {
namespace {

class Letters : public corpus::Source {
 public:
  corpus::Piece piece(uint64_t index) const override {
    Random random(7, index);
    corpus::Piece piece;
    for (uint64_t i = random.below(200) + 1; i > 0; --i) piece.text += char('a' + random.below(26));
    return piece;
  }
  std::string description() const override { return "letters"; }
};

struct ToyStream : testing::Test {
  ByteTokenizer tokenizer;
  Letters letters;

  StreamParts parts(const LanguageModel& model, const kernel::Cpu& cpu) const {
    const ProblemProbe probe{model, tokenizer, cpu, {.split = corpus::Split::held_out}, 20};
    return {model, "toy", letters, tokenizer, cpu, probe};
  }
  StreamOutcome run(const OpenToy& toy, const StreamSettings& settings,
                    const std::string& folder = "run",
                    OnExisting existing = OnExisting::refuse) const {
    return run_stream(parts(*toy.model, toy.cpu), settings, toy.scratch.path() / folder, existing,
                      [](const StreamProgress&) {});
  }
  static probe::RecordTable records(const OpenToy& toy, const char* file,
                                    const std::string& folder = "run") {
    return probe::read_records(toy.scratch.path() / folder / file);
  }
  static probe::Diagnosis diagnosis(const OpenToy& toy) {
    return probe::diagnose(records(toy, segments_file), records(toy, heads_file));
  }
  static SequenceState snapshot(const OpenToy& toy, int64_t stream, int64_t position) {
    const MappedFile file(toy.scratch.path() / "run" / snapshots_folder /
                          cat("stream-", stream, "-position-", position, ".state"));
    return read_state(file.bytes(), "snapshot").state;
  }
  static std::string all_records(const OpenToy& toy, const std::string& folder) {
    std::string all;
    for (const char* name : {segments_file, heads_file, probes_file})
      all += read_file(toy.scratch.path() / folder / name);
    return all;
  }
  static StreamSettings small() {
    StreamSettings settings;
    settings.tokens = 1000, settings.segment = 96, settings.streams = 2;
    settings.snapshots = {{50, 480, 960}};
    settings.checkpoint_every = 192;
    settings.probe_every = 400, settings.probe_problems = 3;
    return settings;
  }
};

TEST_F(ToyStream, RecordsWhatEachHeadIs) {
  const OpenToy toy({.sane = SaneSettings{0.2, 10}, .decays = {{{2, 3}, 1.0}, {{0, 1}, 1.01}}});
  EXPECT_EQ(run(toy, small()).tokens_read, 2000);
  const probe::RecordTable segments = records(toy, segments_file), heads = records(toy, heads_file);
  EXPECT_EQ(segments.setting("memories"), "0:2x6x4,2:3x5x3,2:1x2x7");
  EXPECT_EQ(segments.setting("sane"), "trained SANE with alpha 0.2, chunk 10");
  EXPECT_EQ(segments.rows, 2 * 11);
  ASSERT_EQ(heads.rows, 2 * 11 * 6);
  ThreadPool threads(2);
  for (const int64_t position : {480, 960})
    for (const int64_t stream : {0, 1}) {
      // The same tokens, read again by the model alone.
      corpus::TokenStream source(letters, tokenizer, {uint64_t(stream) * 1'000'000'000'000, 0});
      std::vector<int32_t> tokens(static_cast<size_t>(position));
      source.read(tokens);
      SequenceState state = toy.model->fresh_state();
      const auto begin = size_t(position - 96);
      toy.logits_after(std::span(tokens).first(begin), state);
      TauRecord taus(state.layout());
      toy.model->forward(
          {.tokens = std::span(tokens).subspan(begin), .state = &state, .taus = &taus}, toy.cpu);
      EXPECT_TRUE(same_bits(state, snapshot(toy, stream, position)));

      const auto expected = probe::statistics_of(state, &taus, threads);
      const auto row = size_t((position / 96 - 1) * 2 + stream);
      EXPECT_EQ(segments.reals("norm")[row], probe::whole_norm(expected));
      for (size_t h = 0; h < 6; ++h) {
        const size_t at = 6 * row + h;
        const StateHead& head = state.layout().heads()[h];
        EXPECT_EQ(heads.integers("stream")[at], stream);
        EXPECT_EQ(heads.integers("position")[at], position);
        EXPECT_EQ(heads.integers("layer")[at], head.layer);
        EXPECT_EQ(heads.integers("head")[at], head.head);
        EXPECT_EQ(heads.reals("norm")[at], expected[h].norm);
        EXPECT_EQ(heads.reals("largest")[at], expected[h].largest);
        EXPECT_EQ(heads.reals("median")[at], expected[h].median);
        EXPECT_EQ(heads.reals("q99")[at], expected[h].q99);
        EXPECT_EQ(heads.reals("saturated")[at], expected[h].saturated);
        EXPECT_EQ(heads.reals("tau_low")[at], double(taus[h].low));
        EXPECT_EQ(heads.reals("tau_high")[at], double(taus[h].high));
        EXPECT_EQ(heads.reals("tau_mean")[at], taus[h].sum / double(taus[h].count));
        EXPECT_LT(taus[h].low, taus[h].high);
      }
    }
  EXPECT_EQ(records(toy, probes_file).integers("position"),
            (std::vector<int64_t>{0, 0, 400, 400, 800, 800}));
}

TEST_F(ToyStream, DiagnosesAreThoseOfTheLastState) {
  const OpenToy toy({.decays = {{{2, 3}, 1.02}, {{0, 1}, 1.005}}});
  StreamSettings settings = small();
  settings.tokens = 2880, settings.streams = 1, settings.probe_every = 0;
  settings.snapshots = {{2880}};
  run(toy, settings);
  const probe::Diagnosis found = diagnosis(toy);
  EXPECT_EQ(found.position, 2880);
  EXPECT_EQ(found.records, 30);
  EXPECT_EQ(found.most_entries, 24);
  const SequenceState last = snapshot(toy, 0, 2880);
  double above_10 = 0, above_100 = 0, entries = 0;
  for (const StateHead& head : last.layout().heads())
    for (const float entry : last.of(head))
      ++entries, above_10 += std::abs(entry) > 10, above_100 += std::abs(entry) > 100;
  EXPECT_EQ(entries, 107);
  EXPECT_GT(above_10, above_100);
  EXPECT_DOUBLE_EQ(found.background.above_10, above_10 / 107);
  EXPECT_DOUBLE_EQ(found.background.above_100, above_100 / 107);
  size_t growing = 0;
  for (const probe::HeadDiagnosis& head : found.heads) {
    if (head.growth.law == probe::GrowthLaw::bounded) continue;
    ++growing;
    EXPECT_EQ(head.growth.law, probe::GrowthLaw::exponential);
    const bool is_fast = head.layer == 2;
    EXPECT_EQ(head.head, is_fast ? 3 : 1);
    const double rate = std::log(is_fast ? 1.02 : 1.005);
    EXPECT_NEAR(head.growth.rate, rate, 0.05 * rate);
  }
  EXPECT_EQ(growing, 2u);
}

TEST_F(ToyStream, KilledAtAnyMomentEndsWithTheSameBytes) {
  const OpenToy toy({.sane = SaneSettings{0.2, 10}});
  const double seconds = run(toy, small(), "whole").seconds;
  const std::string expected = all_records(toy, "whole");
  Random random(1);
  for (int killed = 0; killed < 4;) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      ThreadPool own(2);
      const auto model = open_model(toy.path, {});
      run_stream(parts(*model, {own}), small(), toy.scratch.path() / "killed", OnExisting::resume,
                 [](const StreamProgress&) {});
      _exit(0);
    }
    usleep(useconds_t(random.uniform(0, 0.8 * seconds) * 1e6));
    kill(child, SIGKILL);
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    if (WIFSIGNALED(status)) {
      if (++killed < 4) continue;
    }
    run(toy, small(), "killed", OnExisting::resume);
    ASSERT_EQ(all_records(toy, "killed"), expected) << "after " << killed << " kills";
    fs::remove_all(toy.scratch.path() / "killed");
  }
}

TEST_F(ToyStream, AnOverflowIsFoundInTheHeadThatGrew) {
  const OpenToy toy({.decays = {{{2, 3}, 1.3}}});
  StreamSettings settings = small();
  settings.streams = 1, settings.probe_every = 0;
  const StreamOutcome outcome = run(toy, settings);
  ASSERT_EQ(outcome.overflows.size(), 1u);
  EXPECT_EQ(outcome.overflows[0].layer, 2);
  EXPECT_EQ(outcome.overflows[0].head, 3);
  EXPECT_GT(outcome.overflows[0].largest, 1e37);
  // The last state that was finite: one token more breaks it.
  corpus::TokenStream source(letters, tokenizer);
  std::vector<int32_t> tokens(static_cast<size_t>(outcome.overflows[0].position + 1));
  source.read(tokens);
  SequenceState state = toy.model->fresh_state();
  toy.logits_after(std::span(tokens).first(tokens.size() - 1), state);
  EXPECT_TRUE(scan_state(state).finite());
  const std::vector<float> logits = toy.logits_after(std::span(tokens).last(1), state);
  EXPECT_FALSE(scan_state(state).finite() && std::isfinite(logits[0]));
  const probe::Diagnosis found = diagnosis(toy);
  ASSERT_EQ(found.breaks.size(), 1u);
  EXPECT_EQ(found.breaks[0].head, 3);
}

TEST_F(ToyStream, AnAdaptiveStrengthHoldsEachHeadByItself) {
  const OpenToy toy({.decays = {{{0, 1}, 1.005}}}, {.alpha = 1000.0});
  StreamSettings settings = small();
  settings.tokens = 4096, settings.segment = 512, settings.streams = 1, settings.probe_every = 0;
  settings.adaptive = true;
  run(toy, settings, "whole");
  const probe::RecordTable heads = records(toy, heads_file, "whole");
  // The norm was first taken at 512 and is above twice that from 1024 on.
  float alpha = 1000;
  for (size_t i = 0; i < size_t(heads.rows); ++i) {
    const bool grows = heads.integers("layer")[i] == 0 && heads.integers("head")[i] == 1;
    if (grows && heads.integers("position")[i] > 1024) alpha = float(double(alpha) * 0.8);
    const double used = grows ? double(alpha) : 1000;
    EXPECT_EQ(heads.reals("tau_low")[i], double(float(used * std::log(2.0) + 1))) << i;
    EXPECT_EQ(heads.reals("tau_high")[i], heads.reals("tau_low")[i]) << i;
  }
  settings.tokens = 2048;
  run(toy, settings, "parts");
  settings.tokens = 4096;
  run(toy, settings, "parts", OnExisting::resume);
  EXPECT_EQ(all_records(toy, "parts"), all_records(toy, "whole"));
}

// Nothing to say about heads; all else is as ever.
TEST_F(ToyStream, AModelWithoutMemoryIsReadToo) {
  Plan plan;
  plan.sizes.layers = {{.taps = 2}, {.cache = 3}};
  const OpenToy toy(plan);
  const StreamOutcome outcome = run(toy, small());
  EXPECT_EQ(outcome.tokens_read, 2000);
  EXPECT_EQ(records(toy, heads_file).rows, 0);
  const probe::Diagnosis found = diagnosis(toy);
  EXPECT_TRUE(found.heads.empty());
  EXPECT_EQ(found.position, 1000);
  EXPECT_EQ(found.records, 11);
  EXPECT_EQ(snapshot(toy, 1, 50).cache(0).size(), 50u * 2 * 3);
}

}  // namespace
}  // namespace deltasane::toy
