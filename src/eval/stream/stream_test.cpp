#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <csignal>
#include <cstdlib>

#include "base/random.h"
#include "eval/stream/fixture_stress.h"
#include "eval/stream/stream_reader.h"
#include "eval/stream/stream_run.h"
#include "model/fixture_forward.h"
#include "model/log_probability.h"
#include "model/rwkv7/checkpoint/write.h"
#include "model/rwkv7/model.h"
#include "model/rwkv7/random.h"
#include "probe/diagnosis.h"
#include "probe/loss_codes.h"
#include "support/errors.h"
#include "support/scratch.h"
#include "text/byte_tokenizer.h"

namespace deltasane {
namespace {

constexpr Rwkv7Shape tiny{.layers = 2,
                          .channels = 32,
                          .heads = 2,
                          .head_size = 16,
                          .feed_forward = 64,
                          .vocabulary = 256,
                          .rank_w = 4,
                          .rank_a = 4,
                          .rank_v = 4,
                          .rank_g = 4};

// Pieces of random letters, of any length.
class LetterSource : public corpus::Source {
 public:
  corpus::Piece piece(uint64_t index) const override {
    Random random(7, index);
    corpus::Piece piece;
    for (uint64_t i = random.below(200) + 1; i > 0; --i) piece.text += char('a' + random.below(26));
    return piece;
  }
  std::string description() const override { return "letters"; }
};

// A model on disk and all that reads it.
struct Bench {
  fs::path path;
  Rwkv7 model;
  ByteTokenizer tokenizer;
  LetterSource letters;
  test::AlternatingSource alternating;
  ThreadPool threads{2};
  int64_t probed = 0;

  explicit Bench(const fs::path& file, const OpenOptions& options = {})
      : path(file), model(Rwkv7Checkpoint(file), options) {}

  StreamParts parts(const corpus::Source& source) {
    return {model,
            path.filename().string(),
            source,
            tokenizer,
            {threads},
            [this](const SequenceState& state, int64_t problems) {
              ++probed;
              return ProbeOutcome{problems, state.position % (problems + 1)};
            }};
  }
  StreamOutcome run(const corpus::Source& source, const StreamSettings& settings,
                    const fs::path& folder, OnExisting existing = OnExisting::refuse) {
    return run_stream(parts(source), settings, folder, existing, [](const StreamProgress&) {});
  }
};

fs::path random_model(const fs::path& folder, uint64_t seed = 1) {
  const fs::path path = folder / cat("random-", seed, ".safetensors");
  write_rwkv7_safetensors(path, RandomRwkv7(tiny, seed), StoredType::f32, {});
  return path;
}

std::string all_records(const fs::path& folder) {
  std::string all;
  for (const char* name : {segments_file, heads_file, probes_file, losses_file})
    all += read_file(folder / name);
  return all;
}

StreamSettings small_settings() {
  StreamSettings settings;
  settings.tokens = 5000, settings.segment = 512, settings.streams = 2;
  settings.snapshots = {{100, 1024, 4999}};
  settings.checkpoint_every = 1024;
  settings.probe_every = 700, settings.probe_problems = 4;
  return settings;
}

TEST(Stream, ReportsNoProgressWithoutFigures) {
  const test::Scratch scratch;
  Bench bench(random_model(scratch.path()));
  const StreamSettings settings = small_settings();
  int64_t reached = 0;
  run_stream(bench.parts(bench.letters), settings, scratch.path() / "run", OnExisting::refuse,
             [&](const StreamProgress& now) {
               EXPECT_EQ(now.tokens, settings.tokens);
               EXPECT_EQ(now.streams, 2);
               EXPECT_GT(now.loss, 0) << "at " << now.position;
               EXPECT_GT(now.norm, 0) << "at " << now.position;
               reached = now.position;
             });
  EXPECT_EQ(reached, settings.tokens);
}

TEST(Stream, RecordsEverySegmentOfEveryStream) {
  const test::Scratch scratch;
  Bench bench(random_model(scratch.path()), {.sane = {.alpha = 3.0}});
  const StreamOutcome outcome = bench.run(bench.letters, small_settings(), scratch.path() / "run");
  EXPECT_EQ(outcome.tokens_read, 10000);
  EXPECT_TRUE(outcome.overflows.empty());
  const auto segments = probe::read_records(scratch.path() / "run" / segments_file);
  EXPECT_EQ(segments.rows, 20);
  EXPECT_EQ(segments.integers("position")[19], 5000);
  EXPECT_EQ(segments.integers("tokens")[19], 5000 - 9 * 512);
  EXPECT_EQ(segments.setting("sane"), "run-time SANE with alpha 3, chunk 16");
  double sum = 0;
  for (size_t i = 1; i < 20; i += 2) sum += segments.reals("loss_sum")[i];
  EXPECT_NEAR(sum, segments.reals("loss_total")[19], 1e-9 * sum);
  EXPECT_EQ(segments.reals("cumulative_loss")[19], segments.reals("loss_total")[19] / 5000);
  EXPECT_EQ(outcome.cumulative_loss[1], segments.reals("cumulative_loss")[19]);
  EXPECT_NE(outcome.cumulative_loss[0], outcome.cumulative_loss[1]);
  const auto heads = probe::read_records(scratch.path() / "run" / heads_file);
  EXPECT_EQ(heads.rows, 80);
  for (size_t i = 0; i < 80; ++i) {
    EXPECT_FLOAT_EQ(float(heads.reals("tau_mean")[i]), float(3 * std::log(2.0) + 1));
    EXPECT_NEAR(heads.reals("near_identity")[i] + heads.reals("transition")[i] +
                    heads.reals("saturated")[i],
                1, 1e-12);
  }
  const auto losses = probe::read_records(scratch.path() / "run" / losses_file);
  EXPECT_EQ(losses.integers("position"), segments.integers("position"));
  for (size_t i = 0; i < 20; ++i) {
    const std::string& codes = losses.bytes("losses")[i];
    EXPECT_EQ(int64_t(codes.size()), segments.integers("tokens")[i]);
    double of_codes = 0;
    for (const char code : codes) of_codes += probe::loss_of_code(uint8_t(code));
    EXPECT_NEAR(of_codes, segments.reals("loss_sum")[i], probe::loss_step / 2 + 1e-9);
  }
  const auto probes = probe::read_records(scratch.path() / "run" / probes_file);
  EXPECT_EQ(probes.rows, 2 * 8);  // at 0, 700, ... 4900
  EXPECT_EQ(probes.integers("correct")[2], 700 % 5);
  int64_t snapshots = 0;
  for (const auto& entry : fs::directory_iterator(scratch.path() / "run" / snapshots_folder)) {
    const auto name = snapshot_named(entry.path());
    ASSERT_TRUE(name);
    const MappedFile file(entry.path());
    EXPECT_EQ(read_state(file.bytes(), "snapshot").state.position, name->position);
    ++snapshots;
  }
  EXPECT_EQ(snapshots, 6);
}

TEST(Stream, AsksAtThePositionsThatAreNamed) {
  const test::Scratch scratch;
  Bench bench(random_model(scratch.path()));
  StreamSettings settings = small_settings();
  settings.probe_every = 0, settings.probe_at = {0, 1030, 2048};
  bench.run(bench.letters, settings, scratch.path() / "run");
  const auto probes = probe::read_records(scratch.path() / "run" / probes_file);
  EXPECT_EQ(probes.integers("position"), (std::vector<int64_t>{0, 0, 1030, 1030, 2048, 2048}));
  EXPECT_EQ(probes.setting("probe_at"), "0,1030,2048");
  settings.probe_at = {-1};
  EXPECT_FAULT(bench.run(bench.letters, settings, scratch.path() / "other"), Fault::usage,
               "probe-at");
}

// The loss by plain sums over the whole text.
TEST(Stream, CountsEveryTokenOnce) {
  const test::Scratch scratch;
  Bench bench(random_model(scratch.path()));
  StreamSettings settings = small_settings();
  settings.streams = 1, settings.probe_every = 0;
  settings.segment = 1024;
  settings.snapshots.emplace();
  const StreamOutcome outcome = bench.run(bench.letters, settings, scratch.path() / "run");
  std::string text;
  for (uint64_t i = 0; text.size() < 5001; ++i) text += bench.letters.piece(i).text;
  const std::vector<int32_t> ids = bench.tokenizer.encode(text);
  SequenceState state = bench.model.fresh_state();
  Tensor<float> logits({5000, 256});
  for (int64_t from = 0; from < 5000; from += 256) {
    const int64_t some = std::min<int64_t>(256, 5000 - from);
    test::read_all(bench.model, {ids.data() + from, size_t(some)}, state,
                   logits.view().slice(0, from, some), {bench.threads});
  }
  long double loss = 0;
  for (int64_t t = 0; t < 5000; ++t)
    loss -= (long double)(log_probability({logits.data() + t * 256, 256}, ids[size_t(t) + 1]));
  EXPECT_NEAR(outcome.cumulative_loss[0], double(loss / 5000),
              5000 * 0x1p-52 * outcome.cumulative_loss[0]);  // a rounding per addition
}

// Where a sum in 32 bits would stand still and a count of 32 bits begin again.
TEST(Stream, CountsAndSumsPastThirtyTwoBits) {
  const test::Scratch scratch;
  Bench bench(random_model(scratch.path()));
  const StreamParts parts = bench.parts(bench.letters);
  using enum StreamReader::Strength;
  constexpr int64_t before = (int64_t{1} << 32) - 5, count = 300;
  constexpr double sum = 5.5 * before;
  StreamReader first(parts, 0, fixed);
  StreamPlace late = first.place();
  late.tokens = before, late.loss = sum;
  StreamReader last(parts, 0, fixed, late, bench.model.fresh_state());
  StreamReader::read_to(count, {&first, 1});
  StreamReader::read_to(count, {&last, 1});
  EXPECT_EQ(first.place().tokens, count);
  EXPECT_EQ(last.place().tokens, before + count);
  // Each addition is off by half a unit of the sum at most.
  EXPECT_NEAR(last.place().loss - sum, first.place().loss, count * sum * 0x1p-53);
}

TEST(Stream, GoesOnWhereItWasStoppedAndCanBeExtended) {
  const test::Scratch scratch;
  Bench bench(random_model(scratch.path()));
  StreamSettings settings = small_settings();
  bench.run(bench.letters, settings, scratch.path() / "whole");
  settings.tokens = 2048;
  bench.run(bench.letters, settings, scratch.path() / "parts");
  settings.tokens = 5000;
  const StreamOutcome outcome =
      bench.run(bench.letters, settings, scratch.path() / "parts", OnExisting::resume);
  EXPECT_EQ(outcome.resumed_at, 2048);
  EXPECT_EQ(all_records(scratch.path() / "parts"), all_records(scratch.path() / "whole"));
  // A run that is complete stays as it is.
  bench.run(bench.letters, settings, scratch.path() / "parts", OnExisting::resume);
  EXPECT_EQ(all_records(scratch.path() / "parts"), all_records(scratch.path() / "whole"));
}

// DELTASANE_KILL_ROUNDS asks for more rounds than every test run needs.
TEST(Stream, KilledAtAnyMomentEndsWithTheSameBytes) {
  const test::Scratch scratch;
  const fs::path model = random_model(scratch.path()), folder = scratch.path() / "killed";
  StreamSettings settings = small_settings();
  settings.tokens = 20000;
  double whole_seconds = 0;
  {
    Bench bench(model);
    whole_seconds = bench.run(bench.letters, settings, scratch.path() / "whole").seconds;
  }
  const std::string expected = all_records(scratch.path() / "whole");
  const char* const asked = std::getenv("DELTASANE_KILL_ROUNDS");
  const int rounds = asked ? std::atoi(asked) : 6;
  Random random(asked ? 2 : 1);
  int killed = 0;
  for (int round = 0; round < rounds;) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      Bench bench(model);
      bench.run(bench.letters, settings, folder, OnExisting::resume);
      _exit(0);
    }
    usleep(useconds_t(random.uniform(0, 0.6 * whole_seconds) * 1e6));
    kill(child, SIGKILL);
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    const bool finished = WIFEXITED(status);
    killed += !finished;
    if (!finished) ++round;
    if (!finished && round < rounds) continue;
    Bench bench(model);
    bench.run(bench.letters, settings, folder, OnExisting::resume);
    ASSERT_EQ(all_records(folder), expected) << "after " << killed << " kills";
    if (round < rounds) fs::remove_all(folder);
  }
  EXPECT_EQ(killed, rounds);
}

TEST(Stream, RefusesAFolderOfAnotherRun) {
  const test::Scratch scratch;
  const fs::path folder = scratch.path() / "run";
  Bench bench(random_model(scratch.path()));
  StreamSettings settings = small_settings();
  settings.tokens = 1024;
  bench.run(bench.letters, settings, folder);
  const std::string before = all_records(folder);
  EXPECT_FAULT(bench.run(bench.letters, settings, folder), Fault::file, "(resume)");
  const auto refuses = [&](Bench& other, const corpus::Source& source, std::string_view part) {
    EXPECT_FAULT(other.run(source, settings, folder, OnExisting::resume), Fault::file, part);
    EXPECT_EQ(all_records(folder), before);
  };
  refuses(bench, bench.alternating, "corpus: expected 'alternating', found 'letters'");
  Bench other(random_model(scratch.path(), 2));
  refuses(other, other.letters, "model: expected 'random-2.safetensors', found 'random-1");
  Bench sane(bench.path, {.sane = {.alpha = 2.0}});
  refuses(sane, sane.letters, "sane: expected 'run-time SANE with alpha 2");
  settings.segment = 1024;
  refuses(bench, bench.letters, "segment: expected '1024', found '512'");
  EXPECT_EQ(setting_text({"model_identity", "8"}), "0000000000000008");
  EXPECT_EQ(setting_text({"segment", "512"}), "512");
  fs::create_directories(scratch.path() / "else");
  replace_file(scratch.path() / "else" / "letter.txt", "Dear all");
  EXPECT_FAULT(bench.run(bench.letters, settings, scratch.path() / "else"), Fault::file,
               "expected an empty folder or a run, found letter.txt");
}

TEST(Stream, RefusesDamagedRecordsAndLosesNothing) {
  const test::Scratch scratch;
  const fs::path folder = scratch.path() / "run";
  Bench bench(random_model(scratch.path()));
  StreamSettings settings = small_settings();
  settings.tokens = 2048;
  bench.run(bench.letters, settings, folder);
  std::string heads = read_file(folder / heads_file);
  heads[heads.size() / 2] ^= 1;
  replace_file(folder / heads_file, heads);
  settings.tokens = 4096;
  EXPECT_FAULT(bench.run(bench.letters, settings, folder, OnExisting::resume), Fault::file,
               "the records are damaged");
  EXPECT_EQ(read_file(folder / heads_file), heads);
}

TEST(Stream, AFullDiskIsAnErrorFromWhichItGoesOn) {
  const test::Scratch scratch;
  const fs::path folder = scratch.path() / "run";
  Bench bench(random_model(scratch.path()));
  StreamSettings settings = small_settings();
  bench.run(bench.letters, settings, scratch.path() / "whole");
  struct rlimit before;
  getrlimit(RLIMIT_FSIZE, &before);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const struct rlimit tight { 9000, before.rlim_max };  // enough for states, not for all rows
  setrlimit(RLIMIT_FSIZE, &tight);
  EXPECT_FAULT(bench.run(bench.letters, settings, folder), Fault::file, "cannot write");
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  const StreamOutcome outcome = bench.run(bench.letters, settings, folder, OnExisting::resume);
  EXPECT_TRUE(outcome.resumed_at);
  EXPECT_EQ(all_records(folder), all_records(scratch.path() / "whole"));
}

const std::vector<test::PlannedHead> plan{
    {0, 1, false, 0.02}, {1, 3, true, 2e-4}, {2, 0, true, 1e-3}, {2, 2, false, 3.0}};

TEST(Stream, DiagnosisFindsPlannedGrowth) {
  const test::Scratch scratch;
  const fs::path path = scratch.path() / "stress.safetensors", folder = scratch.path() / "run";
  test::write_stress_model(path, 3, plan);
  Bench bench(path);
  StreamSettings settings;
  settings.tokens = 32768, settings.segment = 1024;
  bench.run(bench.alternating, settings, folder);
  const probe::Diagnosis found = probe::diagnose(probe::read_records(folder / segments_file),
                                                 probe::read_records(folder / heads_file));
  size_t anomalous = 0;
  for (const probe::HeadDiagnosis& head : found.heads) {
    anomalous += head.anomalous();
    for (const test::PlannedHead& planned : plan) {
      if (planned.layer != head.layer || planned.head != head.head) continue;
      EXPECT_TRUE(head.anomalous());
      EXPECT_EQ(head.growth.law == probe::GrowthLaw::exponential, planned.exponential)
          << head.layer << "." << head.head;
      EXPECT_NEAR(head.growth.rate, planned.rate, 0.05 * planned.rate)
          << head.layer << "." << head.head;
    }
  }
  EXPECT_EQ(anomalous, plan.size());
  EXPECT_TRUE(found.breaks.empty());
}

TEST(Stream, AnOverflowIsAResultWithItsPlace) {
  const test::Scratch scratch;
  const fs::path path = scratch.path() / "stress.safetensors", folder = scratch.path() / "run";
  test::write_stress_model(path, 3, {{1, 2, true, 5e-3}, {2, 1, false, 0.1}});
  StreamSettings settings;
  settings.tokens = 65536, settings.segment = 512;
  Bench bench(path);
  const StreamOutcome outcome = bench.run(bench.alternating, settings, folder);
  ASSERT_EQ(outcome.overflows.size(), 1u);
  const StreamOverflow& overflow = outcome.overflows[0];
  EXPECT_EQ(overflow.layer, 1);
  EXPECT_EQ(overflow.head, 2);
  EXPECT_GT(overflow.largest, 1e15);
  EXPECT_LT(overflow.position, 30000);
  const auto segments = probe::read_records(folder / segments_file);
  const auto last = size_t(segments.rows) - 1;
  EXPECT_EQ(segments.integers("overflow")[last], 1);
  EXPECT_EQ(segments.integers("overflow_layer")[last], 1);
  EXPECT_EQ(segments.integers("overflow_head")[last], 2);
  EXPECT_EQ(probe::read_records(folder / heads_file).integers("position").back(),
            overflow.position);
  EXPECT_EQ(segments.integers("position")[last], overflow.position);
  EXPECT_EQ(segments.integers("position")[last - 1] + segments.integers("tokens")[last],
            overflow.position);
  for (const double loss : segments.reals("loss_total")) EXPECT_TRUE(std::isfinite(loss));
  const std::string records = all_records(folder);
  EXPECT_EQ(bench.run(bench.alternating, settings, folder, OnExisting::resume).overflows.size(),
            1u);
  EXPECT_EQ(all_records(folder), records);

  Bench sane(path, {.sane = {.alpha = 3.0}});
  const StreamOutcome kept = sane.run(sane.alternating, settings, scratch.path() / "sane");
  EXPECT_TRUE(kept.overflows.empty());
  EXPECT_EQ(kept.tokens_read, 65536);
  const auto bounded = probe::read_records(scratch.path() / "sane" / segments_file);
  for (const double largest : bounded.reals("largest")) EXPECT_LE(largest, 3 * std::log(2.0) + 1);
}

// "abab..." for the streams before `quiet`, "aaaa..." for the others, where planned heads do not
// grow.
class SplitSource : public corpus::Source {
 public:
  explicit SplitSource(uint64_t quiet) : quiet_(quiet) {}
  corpus::Piece piece(uint64_t index) const override {
    corpus::Piece piece = alternating_.piece(index);
    if (index >= quiet_ * 1'000'000'000'000) piece.text.assign(piece.text.size(), 'a');
    return piece;
  }
  std::string description() const override { return "split"; }

 private:
  uint64_t quiet_;
  test::AlternatingSource alternating_;
};

std::vector<double> losses_of(const fs::path& folder, int64_t stream) {
  const auto segments = probe::read_records(folder / segments_file);
  std::vector<double> losses;
  for (size_t i = 0; i < size_t(segments.rows); ++i)
    if (segments.integers("stream")[i] == stream) losses.push_back(segments.reals("loss_total")[i]);
  return losses;
}

TEST(Stream, StreamsSideBySideAreReadAsIfAlone) {
  const test::Scratch scratch;
  Bench bench(random_model(scratch.path()), {.sane = {.alpha = 3.0}});
  StreamSettings settings = small_settings();
  settings.streams = 3;
  bench.run(bench.letters, settings, scratch.path() / "three");
  settings.streams = 1;
  bench.run(bench.letters, settings, scratch.path() / "one");
  EXPECT_EQ(losses_of(scratch.path() / "three", 0), losses_of(scratch.path() / "one", 0));
  EXPECT_NE(losses_of(scratch.path() / "three", 1), losses_of(scratch.path() / "three", 0));
}

TEST(Stream, AnOverflowEndsItsOwnStreamOnly) {
  const test::Scratch scratch;
  const fs::path path = scratch.path() / "stress.safetensors";
  test::write_stress_model(path, 2, {{1, 2, true, 2e-2}});
  StreamSettings settings;
  settings.tokens = 8192, settings.segment = 1024, settings.streams = 3;
  settings.snapshots.emplace();
  Bench bench(path);
  const SplitSource source(1), quiet(0);
  const StreamOutcome outcome = bench.run(source, settings, scratch.path() / "run");
  ASSERT_EQ(outcome.overflows.size(), 1u);
  EXPECT_EQ(outcome.overflows[0].stream, 0);
  EXPECT_EQ(losses_of(scratch.path() / "run", 1).size(), 8u);
  EXPECT_EQ(losses_of(scratch.path() / "run", 2).size(), 8u);
  EXPECT_EQ(outcome.tokens_read, outcome.overflows[0].position + 2 * 8192);
  EXPECT_TRUE(bench.run(quiet, settings, scratch.path() / "quiet").overflows.empty());
  for (const int64_t stream : {1, 2})
    EXPECT_EQ(losses_of(scratch.path() / "run", stream),
              losses_of(scratch.path() / "quiet", stream));
  settings.streams = 1;
  const StreamOutcome alone = bench.run(source, settings, scratch.path() / "alone");
  ASSERT_EQ(alone.overflows.size(), 1u);
  EXPECT_EQ(alone.overflows[0].position, outcome.overflows[0].position);
  EXPECT_EQ(losses_of(scratch.path() / "alone", 0), losses_of(scratch.path() / "run", 0));
}

TEST(Stream, SnapshotsComeAtTheUsualPlaces) {
  EXPECT_EQ(default_snapshots(4095), (std::vector<int64_t>{}));
  EXPECT_EQ(default_snapshots(5 << 20),
            (std::vector<int64_t>{4096, 65536, 524288, 1 << 20, 2 << 20, 4 << 20}));
  EXPECT_FALSE(snapshot_named("stream-0-position-12.state.tmp-9"));
  EXPECT_FALSE(snapshot_named("stream-x-position-12.state"));
}

}  // namespace
}  // namespace deltasane
