#include "eval/run/evaluate.h"

#include <gtest/gtest.h>

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <limits>
#include <set>

#include "base/io/folder_lock.h"
#include "base/io/seal.h"
#include "eval/run/journal.h"
#include "model/fixture_forward.h"
#include "model/rwkv7/checkpoint/write.h"
#include "model/rwkv7/fixture_shape.h"
#include "model/rwkv7/fixture_touchy.h"
#include "model/rwkv7/model.h"
#include "support/errors.h"
#include "support/scratch.h"
#include "text/byte_tokenizer.h"

namespace deltasane::eval {
namespace {

constexpr Rwkv7Shape small = test::small_rwkv7(256);

std::vector<Benchmark> small_suite() {
  std::vector<Benchmark> suite(2);
  suite[0].name = "sums", suite[0].title = "Sums";
  suite[1].name = "products", suite[1].title = "Products";
  for (Benchmark& benchmark : suite) benchmark.instruction = "{question}";
  for (int i = 1; i <= 5; ++i) {
    suite[0].problems.push_back({i, cat(i, " + ", i, "?"), cat(2 * i)});
    suite[1].problems.push_back({2 * i, cat(i, " * ", i, "?"), cat(i * i)});
  }
  return suite;
}

struct EvaluateTest : testing::Test {
  test::Scratch scratch;
  fs::path file = write();
  ByteTokenizer tokenizer;
  EvaluationSettings settings;

  EvaluateTest() {
    settings.samples = 3;
    settings.batch.tokens = 20;
    settings.batch.batch = 4;
    settings.batch.sampler.seed = 7;
  }

  fs::path write() {
    const fs::path path = scratch.path() / "model.safetensors";
    write_rwkv7_safetensors(path, RandomRwkv7(small, 1), StoredType::f32, {});
    return path;
  }

  // As a process of its own would: the model is opened anew.
  eval::Run run(const std::string& name, const EvaluationSettings& with, int threads = 1,
                const std::vector<Benchmark>& suite = small_suite()) {
    ThreadPool pool(threads);
    const Rwkv7 model(Rwkv7Checkpoint(file), {});
    const Prefix prefix{model.fresh_state(), {}, ""};
    return evaluate({model, "small", tokenizer, {pool}}, prefix, suite, with, scratch.path() / name,
                    [](const EvaluationProgress&) {});
  }

  std::vector<std::string> sorted(const std::string& path) const {
    std::vector<std::string> lines = read_journal(scratch.path() / path);
    std::ranges::sort(lines);
    return lines;
  }
  void expect_same(const std::string& a, const std::string& b) const {
    for (const char* name : {"samples.jsonl", "problems.jsonl"})
      EXPECT_EQ(sorted(cat(a, "/", name)), sorted(cat(b, "/", name)));
    EXPECT_EQ(read_file(scratch.path() / a / "scores.json"),
              read_file(scratch.path() / b / "scores.json"));
  }
};

TEST_F(EvaluateTest, KeepsEverySampleAndVote) {
  const eval::Run found = run("run", settings);
  EXPECT_TRUE(found.complete());
  EXPECT_EQ(sorted("run/samples.jsonl").size(), 30u);
  EXPECT_EQ(sorted("run/problems.jsonl").size(), 10u);
  EXPECT_EQ(found.benchmarks[1].done.size(), 5u);
  EXPECT_TRUE(found.benchmarks[1].done.contains(10));
  const auto samples = sorted("run/samples.jsonl");
  EXPECT_GT(std::set(samples.begin(), samples.end()).size(), 29u);
}

TEST_F(EvaluateTest, BatchThreadsAndOrderDoNotShow) {
  write_rwkv7_safetensors(file, test::TouchyRwkv7(small), StoredType::f32, {});
  run("run", settings);
  for (const int64_t batch : {1, 2, 12, 13, 64}) {
    EvaluationSettings other = settings;
    other.batch.batch = batch;
    run(cat("batch", batch), other, int(batch % 3 + 1));
    expect_same("run", cat("batch", batch));
  }
}

TEST_F(EvaluateTest, ASubsetHasTheSamplesOfTheWhole) {
  run("run", settings);
  auto part = small_suite();
  part.erase(part.begin());
  part[0].problems.erase(part[0].problems.begin(), part[0].problems.begin() + 3);
  run("part", settings, 1, part);
  const auto whole = sorted("run/samples.jsonl"), some = sorted("part/samples.jsonl");
  EXPECT_EQ(some.size(), 6u);
  EXPECT_TRUE(std::ranges::includes(whole, some));
}

TEST_F(EvaluateTest, ShardsTogetherAreTheWhole) {
  run("run", settings);
  for (const int64_t count : {2, 3}) {
    const std::string name = cat("shards", count);
    for (int64_t i = count - 1; i >= 0; --i) {  // whoever comes last puts them together
      settings.shard = {i, count};
      const eval::Run found = run(name, settings);
      EXPECT_EQ(found.complete(), i == 0);
    }
    expect_same("run", name);
    EXPECT_TRUE(read_run(scratch.path() / name).complete());
  }
}

TEST_F(EvaluateTest, ShardsOfSeveralFoldersAreMerged) {
  run("run", settings);
  settings.shard = {0, 2};
  run("a", settings);
  const fs::path a = scratch.path() / "a", b = scratch.path() / "b", c = scratch.path() / "c";
  const fs::path one[]{a}, both[]{b, a};
  EXPECT_FAULT(merge_runs(one, c), Fault::file, "5 problems of sums, ");
  settings.shard = {1, 2};
  run("b", settings);
  merge_runs(both, c);
  expect_same("run", "c");
}

// The file as a kill at any byte of it leaves it behind.
TEST_F(EvaluateTest, GoesOnFromAnyCut) {
  run("run", settings);
  const std::string samples = read_file(scratch.path() / "run/samples.jsonl");
  const std::string problems = read_file(scratch.path() / "run/problems.jsonl");
  for (const size_t tenth : {0, 3, 6, 9, 10}) {
    const std::string name = cat("cut", tenth);
    fs::create_directories(scratch.path() / name);
    fs::copy(scratch.path() / "run/run.json", scratch.path() / name / "run.json");
    replace_file(scratch.path() / name / "samples.jsonl",
                 samples.substr(0, samples.size() * tenth / 10));
    replace_file(scratch.path() / name / "problems.jsonl",
                 problems.substr(0, problems.size() * tenth / 20));
    run(name, settings);
    expect_same("run", name);
  }
}

TEST_F(EvaluateTest, KilledAndResumedHasTheSameScores) {
  run("run", settings);
  for (const size_t rows : {1, 8, 20}) {
    const std::string name = cat("killed", rows);
    const pid_t child = fork();
    if (child == 0) {
      run(name, settings, 1);
      _exit(0);
    }
    const fs::path samples = scratch.path() / name / "samples.jsonl";
    int status = 0;
    bool ended = false;
    while (!ended && (!fs::exists(samples) || read_journal(samples).size() < rows)) {
      usleep(500);
      ended = waitpid(child, &status, WNOHANG) == child;
    }
    if (!ended) {
      kill(child, SIGKILL);
      waitpid(child, &status, 0);
    }
    run(name, settings);
    expect_same("run", name);
  }
}

TEST_F(EvaluateTest, RefusesOtherSettingsInTheSameFolder) {
  run("run", settings);
  settings.batch.sampler.seed = 8;
  EXPECT_FAULT(run("run", settings), Fault::file, "seed: 8 here, 7 there");
  settings.batch.batch = 0;
  EXPECT_FAULT(run("other", settings), Fault::usage, "batch: expected 1 to 512");
}

TEST_F(EvaluateTest, OneWriterAtATime) {
  run("run", settings);
  const FolderLock busy(scratch.path() / "run");
  EXPECT_FAULT(run("run", settings), Fault::file, "another process writes to this folder");
}

TEST_F(EvaluateTest, NamesALogLineThatIsNotARow) {
  run("run", settings);
  const fs::path samples = scratch.path() / "run/samples.jsonl";
  replace_file(samples, sealed("{\"a\":1}") + "\n" + read_file(samples));
  EXPECT_FAULT(run("run", settings), Fault::file, "samples.jsonl:1: expected a row");
}

TEST_F(EvaluateTest, APrefixChangesTheAnswers) {
  run("run", settings);
  ThreadPool pool(1);
  const Rwkv7 model(Rwkv7Checkpoint(file), {});
  Prefix prefix{model.fresh_state(), {}, "ten tokens"};
  const std::vector<int32_t> tokens{1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
  test::read(model, tokens, prefix.state, {pool});
  evaluate({model, "small", tokenizer, {pool}}, prefix, small_suite(), settings,
           scratch.path() / "after", [](const EvaluationProgress&) {});
  EXPECT_EQ(prefix.state.position, 10);
  EXPECT_NE(sorted("run/samples.jsonl"), sorted("after/samples.jsonl"));
}

// The sample ends, and the run continues.
TEST_F(EvaluateTest, OverflowEndsASample) {
  const test::OverflowingRwkv7 source(small, 1e38f, test::OverflowingRwkv7::Decay::random);
  write_rwkv7_safetensors(file, source, StoredType::f32, {});
  const auto found = run("run", settings);
  EXPECT_TRUE(found.complete());
  const std::vector<std::string> samples = sorted("run/samples.jsonl");
  ASSERT_EQ(samples.size(), 30u);
  int64_t ended = 0, counted = 0, all = 0;
  for (const std::string& line : samples)
    ended += line.find("\"ended\":\"overflow\"") != std::string::npos;
  EXPECT_GT(ended, 0);
  for (const RunBenchmark& benchmark : found.benchmarks) {
    counted += score_of(benchmark).overflowed;
    all += score_of(benchmark).samples;
  }
  EXPECT_EQ(counted, ended);
  EXPECT_EQ(all, 30);
  EXPECT_NE(read_file(scratch.path() / "run/scores.json").find("\"overflowed_samples\": "),
            std::string::npos);
}

TEST_F(EvaluateTest, RefusesMoreSamplesThanMemoryHolds) {
  EvaluationSettings many = settings;
  many.samples = std::numeric_limits<int64_t>::max();
  EXPECT_FAULT(run("run", many), Fault::usage, "samples: expected 1 to 100000");
}

TEST(Shards, AreWrittenAsTheyAreRead) {
  EXPECT_EQ(shard_from("1/4").index, 1);
  EXPECT_EQ(shard_from("1/4").count, 4);
  for (const char* bad : {"", "1", "4/4", "-1/4", "1/", "1/4x", "a/b", "0/0"})
    EXPECT_FAULT(shard_from(bad), Fault::usage, "expected I/N");
}

}  // namespace
}  // namespace deltasane::eval
