// What a run will allocate, how its rows are split, and what is refused.
#include "train/training_memory.h"

#include <gtest/gtest.h>

#include "comm/single_group.h"
#include "support/errors.h"
#include "train/run_fixture.h"

namespace deltasane::train {
namespace {

TrainConfig with_rows(int64_t rows, const std::string& run = "") {
  return read_config(
      cat("[model]\nlayers = 1\nchannels = 32\n[corpus]\nsource = \"math-chat:\"\n"
          "[optimizer]\nsteps = 1\nrows = ",
          rows, "\n[run]\nfolder = \"nowhere\"\n", run),
      "rows.toml");
}

bool always(int64_t, Activations) { return true; }

TEST(RowSplit, IsTheLargestThatFitsAndDividesTheRows) {
  using enum Activations;
  for (const int processes : {1, 2, 4, 8})
    EXPECT_EQ(split_rows(with_rows(48), processes, always), (RowSplit{48 / processes, 1, keep}));
  const auto up_to = [](int64_t most_kept, int64_t most_recomputed) {
    return [=](int64_t micro_batch, Activations activations) {
      return micro_batch <= (activations == keep ? most_kept : most_recomputed);
    };
  };
  EXPECT_EQ(split_rows(with_rows(48), 2, up_to(7, 20)), (RowSplit{6, 4, keep}));
  EXPECT_EQ(split_rows(with_rows(48), 2, up_to(0, 20)), (RowSplit{12, 2, recompute}));
  EXPECT_EQ(split_rows(with_rows(48), 2, up_to(0, 0)), (RowSplit{1, 24, recompute}));
  EXPECT_EQ(split_rows(with_rows(48, "recompute = true"), 2, always), (RowSplit{24, 1, recompute}));
  EXPECT_EQ(split_rows(with_rows(48, "recompute = false"), 2, up_to(0, 20)),
            (RowSplit{1, 24, keep}));
  EXPECT_EQ(split_rows(with_rows(48, "micro_batch = 3"), 4, always), (RowSplit{3, 4, keep}));
  EXPECT_FAULT(split_rows(with_rows(48, "micro_batch = 5"), 4, always), Fault::usage,
               "run.micro_batch: expected a divisor of the 12 rows of each process, found 5");
  EXPECT_FAULT(split_rows(with_rows(48), 5, always), Fault::usage,
               "optimizer.rows: expected a multiple of the 5 processes, found 48");
}

// As files without optimizer.rows have always been split.
TEST(RowSplit, SequencesAndAccumulateStayAsTheyAre) {
  const TrainConfig config = read_config(test::run_config({.model = "channels = 32"}), "old.toml");
  EXPECT_EQ(split_rows(config, 2, always), (RowSplit{1, 2, Activations::keep}));
  EXPECT_FAULT(split_rows(config, 3, always), Fault::usage,
               "optimizer.sequences: expected a multiple of the 3 processes, found 2");
}

TEST(TrainingMemory, IsCountedAndRefusedBeforeAnythingIsAllocated) {
  ThreadPool threads(1);
  const auto model = trainable_factory("").initialise({2, 64, 16, 256}, SaneSettings{3, 16}, {},
                                                      {threads});
  const auto group = comm::single_group();
  TrainConfig config = with_rows(48);
  const TrainingPlan small = plan_training(config, *model, *group);
  EXPECT_EQ(small.device, "cpu");
  const uint64_t all = uint64_t(model->layout().elements()) * sizeof(float);
  EXPECT_EQ(small.need.total(), 4 * all + model->cpu_pass_memory(small.pass).total());
  EXPECT_NO_THROW(small.expect_fit(config));

  config.context = int64_t{1} << 36;
  EXPECT_FAULT(plan_training(config, *model, *group).expect_fit(config), Fault::device,
               "memory of the host: expected at least ");
  EXPECT_FAULT(plan_training(config, *model, *group).expect_fit(config), Fault::device,
               " free; free some, or try a shorter optimizer.context");
  config.run.micro_batch = 4, config.run.recompute = false;
  EXPECT_FAULT(plan_training(config, *model, *group).expect_fit(config), Fault::device,
               "try a smaller run.micro_batch, run.recompute = true, a shorter");
}

TEST(TrainingMemory, RecomputingTakesLess) {
  ThreadPool threads(1);
  const auto model =
      trainable_factory("").initialise({8, 64, 16, 256}, std::nullopt, {}, {threads});
  using enum Activations;
  const auto total = [&](Activations activations) {
    return device_memory(*model, {4, 512, activations}, Place::cpu).total();
  };
  EXPECT_LT(2 * total(recompute), total(keep));
}

}  // namespace
}  // namespace deltasane::train
