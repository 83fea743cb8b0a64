// A whole run: it resumes exactly, survives what disks do, and says what is wrong.
#include "train/run.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <limits>

#include "base/random.h"
#include "format/npy/npy.h"
#include "model/registry.h"
#include "support/errors.h"
#include "support/scratch.h"
#include "text/byte_tokenizer.h"
#include "train/checkpoint.h"
#include "train/run_fixture.h"

namespace deltasane::train {
namespace {

const std::string small_config = test::run_config({.model = "channels = 32\nhead_size = 16"});

struct Fixture {
  ThreadPool threads{2};
  ByteTokenizer tokenizer;
  deltasane::test::Scratch scratch;
  TrainConfig config = read_config(small_config, "small.toml");
  TrainingRun fresh() { return TrainingRun(config, tokenizer, {threads}); }
};

TEST(Run, StoppedAnywhereAndResumedEqualsNeverStopped) {
  Fixture f;
  TrainingRun whole = f.fresh();
  std::vector<double> losses;
  while (!whole.finished()) losses.push_back(whole.step().loss);
  EXPECT_EQ(losses.size(), 6u);
  for (size_t stop = 1; stop < 6; ++stop) {
    const fs::path folder = f.scratch.path() / cat("stop", stop);
    TrainingRun first = f.fresh();
    std::vector<double> found;
    for (size_t i = 0; i < stop; ++i) found.push_back(first.step().loss);
    save_checkpoint(folder, first, 2);
    TrainingRun second = f.fresh();
    std::vector<std::string> passed_over;
    resume_newest(folder, second, passed_over);
    EXPECT_TRUE(passed_over.empty());
    EXPECT_EQ(second.progress(), first.progress());
    while (!second.finished()) found.push_back(second.step().loss);
    EXPECT_EQ(found, losses) << stop;
    EXPECT_TRUE(std::ranges::equal(second.parameters().all(), whole.parameters().all())) << stop;
    EXPECT_TRUE(
        std::ranges::equal(second.optimizer().first.span(), whole.optimizer().first.span()));
    EXPECT_TRUE(
        std::ranges::equal(second.optimizer().second.span(), whole.optimizer().second.span()));
    EXPECT_EQ(second.progress(), whole.progress());
  }
}

// Whatever is trained: each architecture's first kind of model.
TEST(Run, OfEveryArchitectureResumedEqualsNeverStopped) {
  int trained = 0;
  for (const Architecture& one : architectures()) {
    if (!one.training) continue;
    Fixture f;
    f.config.model.architecture = one.name;
    TrainingRun whole = f.fresh(), first = f.fresh(), second = f.fresh();
    std::vector<double> losses, found;
    for (int i = 0; i < 3; ++i) losses.push_back(whole.step().loss);
    found.push_back(first.step().loss);
    const fs::path folder = f.scratch.path() / "stopped";
    save_checkpoint(folder, first, 2);
    std::vector<std::string> passed_over;
    resume_newest(folder, second, passed_over);
    for (int i = 0; i < 2; ++i) found.push_back(second.step().loss);
    EXPECT_EQ(found, losses) << one.name;
    EXPECT_TRUE(std::ranges::equal(second.parameters().all(), whole.parameters().all()))
        << one.name;
    ++trained;
  }
  EXPECT_GE(trained, 2);
}

TEST(Run, AKindOfModelIsOneThatTheArchitectureHas) {
  Fixture f;
  f.config.model.kind = "square";
  for (const Architecture& one : architectures()) {
    if (!one.training) continue;
    f.config.model.architecture = one.name;
    EXPECT_FAULT(f.fresh(), Fault::usage, "kind: expected ");
  }
}

// Notes what is summed, and adds nothing: a job of one that is watched.
class WatchedGroup : public comm::Group {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  void begin_all_reduce(std::span<float> numbers) override {
    begun.push_back({numbers, {numbers.begin(), numbers.end()}});
  }
  void finish_all_reduces() override {
    for (const Sum& sum : begun) {
      elements += sum.numbers.size();
      EXPECT_TRUE(std::ranges::equal(sum.numbers, sum.then)) << "changed while it was summed";
    }
    sums += begun.size();
    begun.clear();
  }
  double all_reduce(double number) override { return number; }
  std::vector<uint64_t> all_gather(uint64_t number) override { return {number}; }
  void broadcast(std::span<std::byte>) override {}

  struct Sum {
    std::span<float> numbers;
    std::vector<float> then;
  };
  std::vector<Sum> begun;
  size_t sums = 0, elements = 0;
};

TEST(Run, GradientsAreAddedUpOncePerStepAndNotTouchedMeanwhile) {
  Fixture f;
  const auto group = std::make_shared<WatchedGroup>();
  TrainingRun run(f.config, f.tokenizer, {f.threads}, group);
  for (int i = 0; i < 2; ++i) run.step();
  EXPECT_EQ(group->elements, 2 * run.parameters().all().size());
  EXPECT_EQ(group->sums, 2u * 3);  // the head, and two layers
  TrainingRun alone = f.fresh();
  for (int i = 0; i < 2; ++i) alone.step();
  EXPECT_TRUE(std::ranges::equal(run.parameters().all(), alone.parameters().all()));
}

TEST(Run, Bf16KeepsMasterWeightsInFloat) {
  Fixture f;
  f.config.precision = Precision::bf16;
  TrainingRun run = f.fresh();
  const double first = run.step().loss;
  while (!run.finished()) run.step();
  TrainingRun fp32 = (f.config.precision = Precision::fp32, f.fresh());
  EXPECT_NEAR(fp32.step().loss, first, 0.02 * first);
  size_t between = 0;  // what bf16 could not hold
  const std::span<const float> matrix =
      run.parameters().of(test::last_of(ParameterRole::matrix, run.layout()));
  for (const float x : matrix) between += rounded_to_bf16(x) != x;
  EXPECT_GT(between, matrix.size() / 2);
}

TEST(Run, CheckpointsAreModelsAndOnlyTheNewestStay) {
  Fixture f;
  TrainingRun run = f.fresh();
  for (int i = 0; i < 3; ++i) {
    run.step();
    save_checkpoint(f.scratch.path(), run, 2);
  }
  const std::vector<fs::path> found = checkpoints_in(f.scratch.path());
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].filename(), "step_00000002");
  EXPECT_EQ(found[1].filename(), "step_00000003");
  const auto model = run.factory().restore(found[1] / "model.safetensors");
  EXPECT_EQ(model->sane(), (SaneSettings{3, 16}));
  EXPECT_TRUE(model->same_model(run.model()));
  EXPECT_TRUE(std::ranges::equal(model->parameters().all(), run.parameters().all()));
}

TEST(Run, CheckpointsAreInTheOrderOfTheirSteps) {
  const deltasane::test::Scratch scratch;
  for (const char* name : {"step_100000000", "step_99999999", "step_00000010", "step_1000000000"})
    fs::create_directory(scratch.path() / name);
  std::vector<std::string> names;
  for (const fs::path& path : checkpoints_in(scratch.path())) names.push_back(path.filename());
  EXPECT_EQ(names, (std::vector<std::string>{"step_00000010", "step_99999999", "step_100000000",
                                             "step_1000000000"}));
}

TEST(Run, ADamagedCheckpointIsPassedOver) {
  Fixture f;
  TrainingRun run = f.fresh();
  for (int i = 0; i < 2; ++i) {
    run.step();
    save_checkpoint(f.scratch.path(), run, 5);
  }
  const fs::path newest = checkpoints_in(f.scratch.path()).back();
  {
    std::fstream file(newest / "optimizer.safetensors", std::ios::in | std::ios::out);
    file.seekp(-5, std::ios::end);
    file.put('x');
  }
  TrainingRun resumed = f.fresh();
  std::vector<std::string> passed_over;
  EXPECT_EQ(resume_newest(f.scratch.path(), resumed, passed_over).filename(), "step_00000001");
  ASSERT_EQ(passed_over.size(), 1u);
  EXPECT_NE(passed_over[0].find("optimizer.safetensors: expected the checksum"), std::string::npos);
  fs::remove(checkpoints_in(f.scratch.path()).front() / "model.safetensors");
  EXPECT_FAULT(resume_newest(f.scratch.path(), resumed, passed_over), Fault::file,
               "found none that is whole");
  EXPECT_FAULT(resume_newest(f.scratch.path() / "empty", resumed, passed_over), Fault::file,
               "expected a checkpoint to resume from, found none");
}

// A limit on file sizes stands for a full disk.
TEST(Run, AFullDiskLeavesTheOldCheckpointAndNothingElse) {
  Fixture f;
  TrainingRun run = f.fresh();
  run.step();
  save_checkpoint(f.scratch.path(), run, 2);
  run.step();
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  rlimit small = before;
  small.rlim_cur = 20'000;
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  EXPECT_FAULT(save_checkpoint(f.scratch.path(), run, 2), Fault::file, "");
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, handler);
  size_t entries = 0;
  for ([[maybe_unused]] const auto& entry : fs::directory_iterator(f.scratch.path())) ++entries;
  EXPECT_EQ(entries, 1u);
  run.step();  // the run continues
  TrainingRun resumed = f.fresh();
  std::vector<std::string> passed_over;
  resume_newest(f.scratch.path(), resumed, passed_over);
  EXPECT_EQ(resumed.progress().step, 1);
}

TrainingRun endless_run(const ByteTokenizer& tokenizer, ThreadPool& threads) {
  TrainConfig config = read_config(small_config, "small.toml");
  config.schedule.steps = 1'000'000;
  return TrainingRun(config, tokenizer, {threads});
}

// The child steps and saves until it is killed, at a moment that is drawn.
void step_and_save_forever(const fs::path& folder) {
  ThreadPool threads(1);
  const ByteTokenizer tokenizer;
  TrainingRun run = endless_run(tokenizer, threads);
  std::vector<std::string> passed_over;
  if (!checkpoints_in(folder).empty()) resume_newest(folder, run, passed_over);
  if (!passed_over.empty()) _exit(3);
  for (;;) {
    run.step();
    save_checkpoint(folder, run, 2);
  }
}

bool has_unfinished_save(const fs::path& folder) {
  return std::ranges::any_of(fs::directory_iterator(folder), [](const fs::directory_entry& entry) {
    return entry.path().string().find(".part-") != std::string::npos;
  });
}

// DELTASANE_KILL_ROUNDS=100 makes it longer.
TEST(Run, KilledAtAnyMomentItResumesAsIfItHadNeverStopped) {
  const deltasane::test::Scratch scratch;
  Random random(9);
  int64_t reached = 0, during_a_save = 0;
  const char* const wanted = std::getenv("DELTASANE_KILL_ROUNDS");
  const int rounds = wanted ? std::atoi(wanted) : 25;
  for (int round = 0; round < rounds; ++round) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      step_and_save_forever(scratch.path());
      _exit(4);
    }
    usleep(useconds_t(20'000 + random.below(200'000)));
    ASSERT_EQ(kill(child, SIGKILL), 0);
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFSIGNALED(status)) << "ended by itself: " << WEXITSTATUS(status);
    during_a_save += has_unfinished_save(scratch.path());
    if (checkpoints_in(scratch.path()).empty()) continue;
    ThreadPool threads(1);
    const ByteTokenizer tokenizer;
    TrainingRun run = endless_run(tokenizer, threads);
    std::vector<std::string> passed_over;
    resume_newest(scratch.path(), run, passed_over);
    EXPECT_TRUE(passed_over.empty()) << passed_over.front();
    EXPECT_GE(run.progress().step, reached);
    reached = run.progress().step;
  }
  EXPECT_GT(reached, 0);
  RecordProperty("killed_during_a_save", int(during_a_save));
  RecordProperty("steps", int(reached));
  ThreadPool threads(1);
  const ByteTokenizer tokenizer;
  TrainingRun stopped = endless_run(tokenizer, threads), whole = endless_run(tokenizer, threads);
  std::vector<std::string> passed_over;
  resume_newest(scratch.path(), stopped, passed_over);
  while (whole.progress().step < reached) whole.step();
  EXPECT_TRUE(std::ranges::equal(stopped.parameters().all(), whole.parameters().all()));
  EXPECT_TRUE(std::ranges::equal(stopped.optimizer().first.span(), whole.optimizer().first.span()));
  EXPECT_EQ(stopped.step().loss, whole.step().loss);
}

TEST(Run, AnotherConfigurationIsNotResumed) {
  Fixture f;
  TrainingRun run = f.fresh();
  run.step();
  save_checkpoint(f.scratch.path(), run, 2);
  f.config.schedule.peak = 0.02;
  TrainingRun other = f.fresh();
  std::vector<std::string> passed_over;
  EXPECT_FAULT(resume_newest(f.scratch.path(), other, passed_over), Fault::usage,
               "optimizer.rate: ");
}

TEST(Run, ALossThatIsNotFiniteStopsBeforeTheUpdate) {
  Fixture f;
  TrainingRun run = f.fresh();
  std::unique_ptr<TrainableModel> broken = run.model().clone();
  broken->parameters().of(test::last_of(ParameterRole::matrix, run.layout()))[7] =
      std::numeric_limits<float>::quiet_NaN();
  run.restore(std::move(broken), Tensor<float>({run.layout().elements()}),
              Tensor<float>({run.layout().elements()}), {});
  const Parameters before = run.parameters().clone();
  EXPECT_FAULT(run.step(), Fault::overflow, "step 1 (corpus piece 0, token 0): ");
  EXPECT_EQ(
      std::memcmp(run.parameters().all().data(), before.all().data(), before.all().size_bytes()),
      0);
  EXPECT_EQ(run.progress().step, 0);
}

TrainingBatch batch_of(BatchSource& source, int64_t sequences, int64_t time) {
  TrainingBatch batch{sequences, time, {}, {}, {}};
  source.next(batch);
  return batch;
}

TEST(BatchSource, RowsAreCutFromTheStreamOrHoldAPieceEach) {
  const ByteTokenizer tokenizer;
  const std::string description = "math-chat:seed=5,level=1-1";
  const auto source = corpus::open_source(description);
  BatchSource packed(description, tokenizer, 256, {});
  const TrainingBatch stream = batch_of(packed, 2, 60);
  std::string text;
  for (uint64_t i = 0; text.size() < 122; ++i) text += source->piece(i).text;
  for (size_t i = 0; i < 60; ++i) {
    EXPECT_EQ(stream.tokens[i], int32_t(uint8_t(text[i])));
    EXPECT_EQ(stream.targets[60 + i], int32_t(uint8_t(text[61 + i + 1])));
    EXPECT_EQ(stream.weights[i], 1);
  }
  EXPECT_TRUE(stream.present.empty());

  for (const PaddingSide side : {PaddingSide::left, PaddingSide::right}) {
    BatchSource pieces(description, tokenizer, 256, {Learned::answers, RowCut::pieces, -1, side});
    const TrainingBatch rows = batch_of(pieces, 3, 50);
    for (uint64_t row = 0; row < 3; ++row) {
      const corpus::Piece piece = source->piece(row);
      const size_t length = piece.text.size();
      ASSERT_LT(length, 50u);
      const size_t begin = side == PaddingSide::left ? 51 - length : 0;  // of 50 + 1 tokens
      for (size_t t = 0; t < 50; ++t) {
        const size_t at = size_t(row) * 50 + t, from = t - begin;
        const bool present = t >= begin && from < length;
        EXPECT_EQ(rows.tokens[at], present ? int32_t(uint8_t(piece.text[from])) : 0);
        const bool learned =
            t + 1 >= begin + piece.learned[0].begin && t + 1 < begin + piece.learned[0].end;
        EXPECT_EQ(rows.weights[at], learned ? 1 : 0) << row << " " << t;
        EXPECT_EQ(rows.present[at], present ? 1 : 0) << row << " " << t;
      }
    }
    EXPECT_EQ(pieces.cursor(), (corpus::Cursor{3, 0}));
  }
  BatchSource shorter(description, tokenizer, 256, {Learned::all, RowCut::pieces});
  const TrainingBatch cut = batch_of(shorter, 2, 5);
  EXPECT_EQ(cut.tokens[5], int32_t(uint8_t(source->piece(1).text[0])));
  EXPECT_EQ(shorter.cursor(), (corpus::Cursor{2, 0}));
  BatchSource small(description, tokenizer, 64, {});
  EXPECT_FAULT(batch_of(small, 1, 5), Fault::file, "expected token ids below 64");
}

// The paper's array: input = the first L, target = the last L, padding where the input is 0, weight
// where the target is not.
TEST(BatchSource, PaddingIsMaskedWhereverItStands) {
  const deltasane::test::Scratch scratch;
  const fs::path path = scratch.path() / "rows.npy";
  NpyWriter writer(path, StoredType::i32, {6});
  writer.append(std::vector<int32_t>{0, 0, 7, 8, 9, 0, 1, 2, 0, 3, 4, 5});
  writer.commit();
  const ByteTokenizer tokenizer;
  BatchSource source(cat("npy:", path.string()), tokenizer, 256, {Learned::all, RowCut::pieces, 0});
  const TrainingBatch batch = batch_of(source, 2, 5);
  EXPECT_EQ(batch.tokens, (std::vector<int32_t>{0, 0, 7, 8, 9, 1, 2, 0, 3, 4}));
  EXPECT_EQ(batch.targets, (std::vector<int32_t>{0, 7, 8, 9, 0, 2, 0, 3, 4, 5}));
  EXPECT_EQ(batch.present, (std::vector<uint8_t>{0, 0, 1, 1, 1, 1, 1, 0, 1, 1}));
  EXPECT_EQ(batch.weights, (std::vector<float>{0, 1, 1, 1, 0, 1, 0, 1, 1, 1}));
}

TEST(BatchSource, DataShorterThanAStepAreRefused) {
  const deltasane::test::Scratch scratch;
  replace_file(scratch.path() / "t.txt", "only a few words");
  const ByteTokenizer tokenizer;
  const std::string text = cat("text:", (scratch.path() / "t.txt").string());
  const auto open = [&](const std::string& description, RowCut cut) {
    return BatchSource(description, tokenizer, 256, {Learned::all, cut});
  };
  open(text, RowCut::packed).expect_rows(2, 7, "one step");
  EXPECT_FAULT(open(text, RowCut::packed).expect_rows(2, 8, "one step"), Fault::file,
               "expected at least 18 tokens for 2 rows of context 8, found 16; give it more");
  open(text, RowCut::pieces).expect_rows(1, 100, "one step");
  EXPECT_FAULT(open(text, RowCut::pieces).expect_rows(2, 4, "one step"), Fault::file,
               "expected at least 2 pieces for 2 rows of context 4, found 1");
  const std::string mixed = cat("mixed:1*(", text, ")+1*(", text, ")");
  open(mixed, RowCut::packed).expect_rows(4, 7, "one step");
  EXPECT_FAULT(open(mixed, RowCut::packed).expect_rows(5, 7, "one step"), Fault::file, "found 32");
  open(cat("mixed:1*(", text, ")+1*(math-chat:)"), RowCut::packed).expect_rows(99, 99, "one step");
}

TEST(Config, UnknownKeysAreNamedWithTheNearest) {
  const auto with = [](const std::string& line) { return small_config + line; };
  EXPECT_FAULT(read_config(with("kep = 3\n"), "a.toml"), Fault::usage,
               "a.toml: run.kep: expected a known key, found 'kep'; the nearest is 'keep'");
  EXPECT_FAULT(read_config(with("[optimiser]\n"), "a.toml"), Fault::usage,
               "the nearest is [optimizer]");
  EXPECT_FAULT(read_config(with("[foo]\n"), "a.toml"), Fault::usage,
               "found 'foo'; there are [model], [corpus], [optimizer], [evaluation] and [run]");
  EXPECT_FAULT(read_config(with("steps = 3\n"), "a.toml"), Fault::usage,
               "found 'steps'; did you mean optimizer.steps?");
  EXPECT_FAULT(read_config(with("stepps = 3\n"), "a.toml"), Fault::usage,
               "found 'stepps'; did you mean optimizer.steps?");
  EXPECT_FAULT(read_config(with("colour = 3\n"), "a.toml"), Fault::usage,
               "found 'colour'; docs/training-keys.md lists them");
  EXPECT_FAULT(read_config(with("keep = \"3\"\n"), "a.toml"), Fault::usage,
               "run.keep: expected a whole number, found the text '3'");
  EXPECT_FAULT(read_config(with("keep = 0\n"), "a.toml"), Fault::usage,
               "run.keep: expected at least 1, found 0");
  for (const auto& [value, found] : {std::pair{"0.5", "the number 0.5"}, {"[1]", "a list"},
                                     {"true", "true"}, {"{a = 1}", "a table"},
                                     {"2026-01-01", "a date or a time"}})
    EXPECT_FAULT(read_config(with(cat("keep = ", value, "\n")), "a.toml"), Fault::usage,
                 cat("run.keep: expected a whole number, found ", found));
  EXPECT_FAULT(read_config("[model\n", "a.toml"), Fault::file, "a.toml:1: expected TOML");
  EXPECT_FAULT(read_config("[model]\n", "a.toml"), Fault::usage,
               "model.from: expected a model file, or layers and channels");
}

}  // namespace
}  // namespace deltasane::train
