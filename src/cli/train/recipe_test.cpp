// The paper's recipe, its file as it is, with a tiny model, short rows and few steps.
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/io/file.h"
#include "base/random.h"
#include "format/npy/npy.h"
#include "model/rwkv7/checkpoint/write.h"
#include "model/rwkv7/random.h"
#include "support/process.h"
#include "support/scratch.h"
#include "train/config.h"

namespace deltasane::cli {
namespace {

const fs::path recipe = fs::path(DELTASANE_SOURCE) / "examples/sane_sft.toml";

class Recipe : public testing::Test {
 protected:
  std::string at(const std::string& name) const { return scratch_.path() / name; }

  Recipe() {
    const Rwkv7Shape shape{2, 32, 2, 16, 64, 256, 8, 8, 8, 8};
    write_rwkv7_safetensors(at("base.safetensors"), RandomRwkv7(shape, 1), StoredType::f32, {});
    // 192 rows of 33 tokens, padded at the left; some are nearly empty.
    constexpr size_t rows = 192, width = 33;
    std::vector<int32_t> tokens(rows * width, 0);
    Random random(5);
    for (size_t row = 0; row < rows; ++row)
      for (size_t i = row % 4 == 0 ? width - 3 : random.below(10); i < width; ++i)
        tokens[row * width + i] = int32_t(1 + random.below(255));
    NpyWriter writer(at("rows.npy"), StoredType::i32, {width});
    writer.append(tokens);
    writer.commit();
  }
  std::vector<std::string> words(const std::string& folder,
                                 const std::vector<std::string>& more = {}) const {
    std::vector<std::string> all{DELTASANE_PROGRAM, "train", recipe.string()};
    std::vector<std::string> set{cat("model.from=", at("base.safetensors")),
                                 cat("corpus.source=npy:", at("rows.npy")),
                                 "corpus.tokenizer=byte",
                                 "optimizer.context=32",
                                 "optimizer.steps=3",
                                 "optimizer.warmup=1",
                                 "optimizer.rate=1e-3",
                                 "run.threads=1",
                                 cat("run.folder=", at(folder))};
    set.insert(set.end(), more.begin(), more.end());
    for (const std::string& one : set) all.insert(all.end(), {"--set", one});
    return all;
  }
  std::vector<double> losses(const std::string& folder) const {
    std::vector<double> all;
    std::istringstream lines(read_file(at(folder + "/metrics.jsonl")));
    for (std::string line; std::getline(lines, line);)
      all.push_back(nlohmann::json::parse(line)["loss"]);
    return all;
  }

  // The yardstick: how far rounding to bf16 moves the losses of `alone`, the recipe's. Another order
  // of sums, in float, moves them less.
  double moved_by_bf16(const std::vector<double>& alone) const {
    EXPECT_EQ(test::run(words("fp32", {"optimizer.precision=fp32"})).exit_code, 0);
    const auto exact = losses("fp32");
    EXPECT_EQ(exact.size(), alone.size());
    double most = 0;
    for (size_t i = 0; i < exact.size(); ++i)
      most = std::max(most, std::abs(exact[i] - alone[i]));
    return most;
  }

  test::Scratch scratch_;
};

TEST_F(Recipe, IsThePapers) {
  const train::TrainConfig c = train::read_config(read_file(recipe), "sane_sft.toml");
  EXPECT_EQ(c.precision, Precision::bf16);
  EXPECT_EQ(c.rows_of_step(), 48);
  EXPECT_EQ(c.context, 4096);
  EXPECT_EQ(c.optimizer.kind, train::OptimizerKind::muon);
  EXPECT_EQ(c.schedule.peak, 5e-5);
  EXPECT_EQ(c.schedule.first, 1e-7);
  EXPECT_NEAR(double(c.schedule.warmup), 0.03 * double(c.schedule.steps), 1);
  EXPECT_EQ(c.optimizer.weight_decay, 0.1);
  EXPECT_EQ(c.clip, 1);
}

TEST_F(Recipe, RunsUnchangedOnAnyNumberOfProcesses) {
  const test::Outcome one = test::run(words("one"));
  ASSERT_EQ(one.exit_code, 0) << one.output;
  for (const char* part : {"3 steps of 48 rows of 32 tokens", "muon, bf16", "memory on cpu: ",
                           "time: about ", "1 time 48 rows each"})
    EXPECT_NE(one.output.find(part), std::string::npos) << part << "\n" << one.output;
  const auto alone = losses("one");
  ASSERT_EQ(alone.size(), 3u);
  const double rounding = moved_by_bf16(alone);
  for (const int processes : {2, 4, 8}) {
    const std::string name = cat("processes", processes);
    const test::Outcome job = test::run_job("", processes, words(name));
    ASSERT_EQ(job.exit_code, 0) << job.output;
    const auto together = losses(name);
    ASSERT_EQ(together.size(), 3u);
    for (size_t i = 0; i < alone.size(); ++i)
      EXPECT_NEAR(together[i], alone[i], rounding) << processes << " processes, step " << i + 1;
  }
}

// One process continues with what four began.
TEST_F(Recipe, ResumesOnAnotherNumberOfProcesses) {
  ASSERT_EQ(test::run_job("", 4, words("run", {"run.save_every=2", "run.keep=9"})).exit_code, 0);
  const auto whole = losses("run");
  fs::remove_all(at("run/step_00000003"));
  std::vector<std::string> again = words("run");
  again.push_back("--resume");
  const test::Outcome resumed = test::run(again);
  ASSERT_EQ(resumed.exit_code, 0) << resumed.output;
  const auto found = losses("run");
  ASSERT_EQ(found.size(), 3u);
  EXPECT_NEAR(found[2], whole[2], moved_by_bf16(whole));
}

TEST_F(Recipe, RefusesWhatCannotFit) {
  const test::Outcome large = test::run(words("a", {"optimizer.context=16000000", "run.micro_batch=48"}));
  EXPECT_EQ(large.exit_code, 1) << large.output;
  EXPECT_NE(large.output.find("memory of the host: expected at least "), std::string::npos)
      << large.output;
  const test::Outcome odd = test::run_job("", 5, words("a"));
  EXPECT_EQ(odd.exit_code, 2) << odd.output;
  EXPECT_NE(odd.output.find("expected a multiple of the 5 processes, found 48"), std::string::npos)
      << odd.output;
  EXPECT_FALSE(fs::exists(at("a")));
}

TEST_F(Recipe, ChecksWithoutTraining) {
  std::vector<std::string> all = words("checked");
  all.push_back("--check");
  const test::Outcome checked = test::run(all);
  EXPECT_EQ(checked.exit_code, 0) << checked.output;
  EXPECT_NE(checked.output.find("memory on cpu: "), std::string::npos) << checked.output;
  EXPECT_EQ(checked.output.find("step      1"), std::string::npos) << checked.output;
  EXPECT_FALSE(fs::exists(at("checked")));
}

}  // namespace
}  // namespace deltasane::cli
