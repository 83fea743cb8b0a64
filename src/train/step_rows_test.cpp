// A step's rows, however they are split: same order, same losses but for the rounding of sums.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <thread>

#include "base/random.h"
#include "comm/socket/socket_group.h"
#include "format/npy/npy.h"
#include "support/errors.h"
#include "support/scratch.h"
#include "text/byte_tokenizer.h"
#include "train/checkpoint.h"
#include "train/run.h"

namespace deltasane::train {
namespace {

// Rows of very different numbers of tokens: of 1, of 2, and of all, most of them padding.
void write_uneven_rows(const fs::path& path, int64_t rows, int64_t width) {
  NpyWriter writer(path, StoredType::i32, {width});
  Random random(3);
  std::vector<int32_t> all(size_t(rows * width), 0);
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t length = row % 8 == 7 ? width : 2 + row % 3;
    for (int64_t i = width - length; i < width; ++i)
      all[size_t(row * width + i)] = int32_t(1 + random.below(255));
  }
  writer.append(all);
  writer.commit();
}

struct Reports {
  std::vector<double> losses, lengths;
  std::vector<corpus::Cursor> cursors;
};

class StepRows : public testing::Test {
 protected:
  StepRows() { write_uneven_rows(scratch_.path() / "rows.npy", 64, 33); }

  TrainConfig config(const std::string& optimizer, const std::string& run = "") const {
    return read_config(
        cat("[model]\nlayers = 2\nchannels = 32\nhead_size = 16\nsane_alpha = 2\n"
            "[corpus]\nrows = \"pieces\"\npadding = 0\nsource = 'npy:",
            (scratch_.path() / "rows.npy").string(),
            "'\n[optimizer]\nkind = \"muon\"\nprecision = \"fp32\"\nsteps = 4\ncontext = 32\n"
            "rate = 0.003\nwarmup = 2\n",
            optimizer, "\n[run]\nfolder = \"nowhere\"\n", run),
        "rows.toml");
  }
  static Reports steps(const TrainConfig& config, std::shared_ptr<comm::Group> group = nullptr) {
    ThreadPool threads(1);
    const ByteTokenizer tokenizer;
    TrainingRun run(config, tokenizer, {threads}, std::move(group));
    Reports all;
    while (!run.finished()) {
      const StepReport report = run.step();
      all.losses.push_back(report.loss);
      all.lengths.push_back(report.gradient_length);
      all.cursors.push_back(run.progress().cursor);
    }
    return all;
  }
  // As many threads, each a process of the job to the others.
  Reports together(const TrainConfig& config, int processes) const {
    std::vector<Reports> of(static_cast<size_t>(processes));
    std::vector<std::thread> all;
    const std::string address = scratch_.path() / cat("socket", processes);
    for (int rank = 0; rank < processes; ++rank)
      all.emplace_back([&, rank] {
        of[size_t(rank)] =
            steps(config, comm::socket_group({.rank = rank, .size = processes, .address = address}));
      });
    for (std::thread& one : all) one.join();
    return of[0];
  }
  // Sums in another order, carried on by a few steps: see docs/numerics.md.
  static void expect_same(const Reports& found, const Reports& expected, const std::string& what) {
    constexpr double rounding = 4 * std::numeric_limits<float>::epsilon();
    EXPECT_EQ(found.cursors, expected.cursors) << what;
    ASSERT_EQ(found.losses.size(), expected.losses.size());
    for (size_t i = 0; i < expected.losses.size(); ++i) {
      EXPECT_NEAR(found.losses[i], expected.losses[i], rounding * expected.losses[i]) << what;
      EXPECT_NEAR(found.lengths[i], expected.lengths[i], 4 * rounding * expected.lengths[i])
          << what;
    }
  }

  deltasane::test::Scratch scratch_;
};

TEST_F(StepRows, AnyNumberOfProcessesAndAnyMicroBatchGiveTheSameLosses) {
  const Reports whole = steps(config("rows = 16"));
  EXPECT_EQ(whole.losses.size(), 4u);
  EXPECT_EQ(whole.cursors[0].piece, 16u);
  for (const int micro_batch : {1, 2, 16})
    expect_same(steps(config("rows = 16", cat("micro_batch = ", micro_batch))), whole,
                cat("micro-batch ", micro_batch));
  for (const int processes : {2, 4, 8})
    expect_same(together(config("rows = 16", "micro_batch = 1"), processes), whole,
                cat(processes, " processes"));
  expect_same(steps(config("sequences = 4\naccumulate = 4")), whole, "sequences");
}

// A mean of the micro-batches' means would be another number with such rows.
TEST_F(StepRows, EveryLearnedTokenCountsAlike) {
  TrainConfig one = config("rows = 1");
  one.schedule.steps = 1;
  ThreadPool threads(1);
  const ByteTokenizer tokenizer;
  const std::string source = cat("npy:", (scratch_.path() / "rows.npy").string());
  BatchSource batches(source, tokenizer, 256, {Learned::all, RowCut::pieces, 0});
  TrainConfig whole = config("rows = 16", "micro_batch = 2");
  TrainingRun run(whole, tokenizer, {threads});
  double sum = 0, tokens = 0, mean_of_means = 0;
  const auto pass = run.model().gradient_pass({1, 32});
  for (int i = 0; i < 16; ++i) {
    TrainingBatch row{1, 32, {}, {}, {}};
    batches.next(row);
    const double loss = pass->loss(run.parameters().all(), row, {1, 0}, {threads});
    sum += loss, tokens += row.weight_total(), mean_of_means += loss / row.weight_total() / 16;
  }
  const double loss = run.step().loss;
  EXPECT_NEAR(loss, sum / tokens, 1e-6 * loss);
  EXPECT_GT(std::abs(loss - mean_of_means), 1e-4 * loss);  // this test could fail
}

TEST_F(StepRows, ARunGoesOnWithAnotherMicroBatch) {
  EXPECT_EQ(config("rows = 16").identity(), config("rows = 16", "micro_batch = 2").identity());
  EXPECT_NE(config("rows = 16").identity(), config("rows = 8").identity());
  EXPECT_NE(config("rows = 16").identity(), config("sequences = 16").identity());
}

TEST_F(StepRows, IsAskedForInOneWay) {
  EXPECT_FAULT(config("rows = 16\nsequences = 4"), Fault::usage,
               "optimizer.rows: expected the rows of a step, or sequences and accumulate, found "
               "both");
  EXPECT_FAULT(config("rows = 0"), Fault::usage, "optimizer.rows: expected 1 to 1073741824, found 0");
  EXPECT_FAULT(config("sequences = 4", "micro_batch = 2"), Fault::usage,
               "run.micro_batch: expected it with optimizer.rows");
}

TEST(ConfigOverrides, StandForLinesOfTheFile) {
  const std::string text =
      "[model]\nlayers = 1\nchannels = 32\n[corpus]\nsource = \"math-chat:\"\n"
      "[optimizer]\nsteps = 7\n[run]\nfolder = \"nowhere\"\n";
  const auto with = [&](const std::vector<std::string>& overrides) {
    return read_config(text, "a.toml", overrides, "--set");
  };
  const TrainConfig changed = with({"optimizer.steps=9", "model.sane_alpha=2.5",
                                    "run.folder=runs/a b", "evaluation.every=3",
                                    "corpus.padding_side=\"right\""});
  EXPECT_EQ(changed.schedule.steps, 9);
  EXPECT_EQ(changed.model.sane_alpha, 2.5);
  EXPECT_EQ(changed.run.folder, "runs/a b");
  EXPECT_EQ(changed.evaluation.every, 3);
  EXPECT_EQ(changed.corpus.padding_side, PaddingSide::right);
  EXPECT_FAULT(with({"optimizer.stepps=9"}), Fault::usage, "the nearest is 'steps'");
  EXPECT_FAULT(with({"steps=9"}), Fault::usage, "expected SECTION.KEY=VALUE, found 'steps=9'");
  EXPECT_FAULT(with({"optimizer.steps=many"}), Fault::usage,
               "--set: optimizer.steps: expected a whole number, found the text 'many'");
  EXPECT_FAULT(with({"optimizer.steps=0"}), Fault::usage, "--set: optimizer.steps: expected 1 to ");
  EXPECT_FAULT(with({"foo.x=1"}), Fault::usage, "--set: foo: expected a known section");
  EXPECT_FAULT(with({"run.folder=x", "run.keep=1", "optimizer.steps=9", "model.layers=-1"}),
               Fault::usage, "--set: model.layers: ");
}

// A run of a version that padded on the right and had other defaults continues as it was.
TEST(ConfigDefaults, OfAnOlderRunAreKept) {
  const deltasane::test::Scratch scratch;
  const fs::path checkpoint = scratch.path() / "step_00000001";
  fs::create_directories(checkpoint);
  replace_file(checkpoint / "config.json",
               R"({"optimizer.beta2": "0.99", "optimizer.epsilon": "1e-18"})");
  const auto resumed = [&](const std::string& optimizer) {
    TrainConfig config = read_config(
        cat("[model]\nlayers = 1\nchannels = 32\n[corpus]\nsource = \"math-chat:\"\n"
            "rows = \"pieces\"\n[optimizer]\nsteps = 7\nkind = \"muon\"\n",
            optimizer, "\n[run]\nfolder = \"nowhere\"\n"),
        "a.toml");
    take_settings_of_newest(scratch.path(), config);
    return config;
  };
  EXPECT_EQ(resumed("").optimizer.beta2, 0.99);
  EXPECT_EQ(resumed("").optimizer.epsilon, 1e-18);
  EXPECT_EQ(resumed("").corpus.padding_side, PaddingSide::right);
  EXPECT_EQ(resumed("beta2 = 0.9").optimizer.beta2, 0.9);  // refused later, with its name
}

// What the paper leaves unsaid is as in the library that it names.
TEST(ConfigDefaults, AreThoseOfTheAuthorsLibrary) {
  const auto with = [](const std::string& kind) {
    return read_config(cat("[model]\nlayers = 1\nchannels = 32\n[corpus]\nsource = \"math-chat:\"\n"
                           "[optimizer]\nsteps = 7\nkind = '",
                           kind, "'\n[run]\nfolder = \"nowhere\"\n"),
                       "a.toml");
  };
  EXPECT_EQ(with("muon").optimizer.beta1, 0.9);
  EXPECT_EQ(with("muon").optimizer.beta2, 0.999);
  EXPECT_EQ(with("muon").optimizer.epsilon, 1e-7);
  EXPECT_EQ(with("muon").corpus.padding_side, PaddingSide::left);
  EXPECT_EQ(with("adamw").optimizer.beta2, 0.99);
}

}  // namespace
}  // namespace deltasane::train
