// A whole run on a GPU: it learns, resumes exactly, and may move to the CPU and back.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "comm/nccl_all_reduce.h"
#include "model/registry.h"
#include "support/errors.h"
#include "support/scratch.h"
#include "tensor/cuda/gpu.h"
#include "text/byte_tokenizer.h"
#include "train/checkpoint.h"
#include "train/run_fixture.h"

namespace deltasane::train {
namespace {

TrainConfig config_with(const std::string& precision) {
  const std::string optimizer = cat("precision = \"", precision, "\"");
  return read_config(test::run_config({.model = "channels = 128",
                                       .optimizer = optimizer,
                                       .sections = "[evaluation]\n"
                                                   "source = \"math-chat:seed=6,level=1-1\"",
                                       .run = "device = \"cuda\""}),
                     "gpu.toml");
}

class GpuRunWith : public testing::Test {
 protected:
  explicit GpuRunWith(const std::string& precision) : config(config_with(precision)) {}
  void SetUp() override {
    if (Gpu::count() == 0) GTEST_SKIP() << "this machine has no CUDA device";
  }
  TrainConfig config;
  ThreadPool threads{2};
  ByteTokenizer tokenizer;
  deltasane::test::Scratch scratch;
  TrainingRun fresh() { return TrainingRun(config, tokenizer, {threads}); }
};
class GpuRun : public GpuRunWith, public testing::WithParamInterface<const char*> {
 protected:
  GpuRun() : GpuRunWith(GetParam()) {}
};

// Whatever is trained: each architecture's first kind of model.
std::vector<std::string> trained_architectures() {
  std::vector<std::string> names;
  for (const Architecture& one : architectures())
    if (one.training) names.emplace_back(one.name);
  return names;
}
class GpuRunOf : public GpuRunWith,
                 public testing::WithParamInterface<std::tuple<std::string, const char*>> {
 protected:
  GpuRunOf() : GpuRunWith(std::get<1>(GetParam())) {
    config.model.architecture = std::get<0>(GetParam());
  }
};
INSTANTIATE_TEST_SUITE_P(Architectures, GpuRunOf,
                         testing::Combine(testing::ValuesIn(trained_architectures()),
                                          testing::Values("fp32", "bf16")),
                         [](const auto& of) {
                           return cat(std::get<0>(of.param), "_", std::get<1>(of.param));
                         });

void expect_equal(const TrainingRun& a, const TrainingRun& b) {
  EXPECT_TRUE(std::ranges::equal(a.parameters().all(), b.parameters().all()));
  EXPECT_TRUE(std::ranges::equal(a.optimizer().first.span(), b.optimizer().first.span()));
  EXPECT_TRUE(std::ranges::equal(a.optimizer().second.span(), b.optimizer().second.span()));
  EXPECT_EQ(a.progress(), b.progress());
}

TEST_P(GpuRunOf, StoppedAnywhereAndResumedEqualsNeverStopped) {
  TrainingRun whole = fresh();
  std::vector<double> losses;
  while (!whole.finished()) losses.push_back(whole.step().loss);
  for (size_t stop : {1, 3, 5}) {
    const fs::path folder = scratch.path() / cat("stop", stop);
    TrainingRun first = fresh();
    std::vector<double> found;
    for (size_t i = 0; i < stop; ++i) found.push_back(first.step().loss);
    save_checkpoint(folder, first, 2);
    TrainingRun second = fresh();
    std::vector<std::string> passed_over;
    resume_newest(folder, second, passed_over);
    expect_equal(first, second);
    while (!second.finished()) found.push_back(second.step().loss);
    EXPECT_EQ(found, losses) << stop;
    expect_equal(whole, second);
  }
}

// Sums over one process, made all the same, change no bit.
TEST_P(GpuRun, EqualsItselfWithSumsOfOne) {
  TrainingRun plain = fresh();
  EXPECT_EQ(plain.sums_by(), "");
  std::vector<double> losses;
  while (!plain.finished()) losses.push_back(plain.step().loss);
  const auto with_sums = [&](comm::AllReduceBackend by) {
    config.run.sums.backend = by;
    TrainingRun summed = fresh();
    EXPECT_NE(summed.sums_by(), "");
    std::vector<double> found;
    while (!summed.finished()) found.push_back(summed.step().loss);
    EXPECT_EQ(found, losses);
    expect_equal(plain, summed);
  };
  with_sums(comm::AllReduceBackend::host);
  if (comm::nccl_version() == 0) GTEST_SKIP() << "this build has no NCCL";
  with_sums(comm::AllReduceBackend::nccl);
}

TEST_P(GpuRunOf, AFewStepsLowerTheLoss) {
  config.schedule.steps = 40, config.schedule.warmup = 2;
  TrainingRun run = fresh();
  const double before = *run.evaluate().loss;
  double first = 0, last = 0;
  while (!run.finished()) {
    const StepReport report = run.step();
    if (report.step == 1) first = report.loss;
    last = report.loss;
  }
  EXPECT_LT(last, first);
  EXPECT_LT(*run.evaluate().loss, before);
}

// What the two compute differs by rounding; where they are, what they were told and what they save
// is the same.
TEST_P(GpuRun, GoesOnOnTheCpuAndBack) {
  TrainingRun gpu = fresh();
  gpu.step();
  save_checkpoint(scratch.path(), gpu, 9);
  config.run.device = "cpu";
  TrainingRun cpu = fresh();
  std::vector<std::string> passed_over;
  resume_newest(scratch.path(), cpu, passed_over);
  expect_equal(gpu, cpu);
  const StepReport there = gpu.step(), here = cpu.step();
  EXPECT_EQ(gpu.progress(), cpu.progress());
  const double roundings = 24 * 2 + 4;  // to 8 bits, as in gpu_training_test.cpp
  EXPECT_NEAR(there.loss, here.loss, std::sqrt(roundings) * here.loss / 256);
  save_checkpoint(scratch.path(), cpu, 9);
  config.run.device = "cuda:0";
  TrainingRun back = fresh();
  resume_newest(scratch.path(), back, passed_over);
  expect_equal(cpu, back);
  back.step();
}

TEST_P(GpuRun, ALossThatIsNotFiniteStopsBeforeTheUpdate) {
  TrainingRun run = fresh();
  std::unique_ptr<TrainableModel> broken = run.model().clone();
  broken->parameters().of(test::last_of(ParameterRole::matrix, run.layout()))[7] =
      std::numeric_limits<float>::quiet_NaN();
  const int64_t n = run.layout().elements();
  run.restore(std::move(broken), Tensor<float>({n}), Tensor<float>({n}), {});
  const Parameters before = run.parameters().clone();
  EXPECT_FAULT(run.step(), Fault::overflow, "step 1 (corpus piece 0, token 0): ");
  EXPECT_EQ(
      std::memcmp(run.parameters().all().data(), before.all().data(), before.all().size_bytes()),
      0);
  EXPECT_EQ(run.progress().step, 0);
}

// Rows of one problem each, filled up on either side.
TEST_P(GpuRun, PaddedOnEitherSideItLearnsWhatTheCpuDoes) {
  config.corpus.piece_per_row = true;
  config.corpus.answers_only = false;
  config.schedule.steps = 2;
  for (const PaddingSide side : {PaddingSide::left, PaddingSide::right}) {
    config.corpus.padding_side = side;
    config.run.device = "cuda";
    TrainingRun gpu = fresh();
    config.run.device = "cpu";
    TrainingRun cpu = fresh();
    while (!cpu.finished()) {
      const double there = gpu.step().loss, here = cpu.step().loss;
      const double roundings = 24 * 2 + 4;  // to 8 bits, as in gpu_training_test.cpp
      EXPECT_NEAR(there, here, std::sqrt(roundings) * here / 256);
    }
  }
}

// The rows of a step in one pass, or in several.
TEST_P(GpuRun, AnyMicroBatchGivesTheSameLosses) {
  config.rows = 4;
  std::vector<double> losses[2];
  for (const int micro_batch : {0, 1}) {
    config.run.micro_batch = micro_batch;
    TrainingRun run = fresh();
    EXPECT_EQ(run.plan().split.micro_batch, micro_batch ? 1 : 4);
    while (!run.finished()) losses[micro_batch].push_back(run.step().loss);
  }
  const double roundings = 24 * 2 + 4;
  for (size_t i = 0; i < losses[0].size(); ++i)
    EXPECT_NEAR(losses[0][i], losses[1][i], std::sqrt(roundings) * losses[0][i] / 256);
}

// What is announced is no less than what is used.
TEST_P(GpuRunOf, UsesNoMoreMemoryThanItSaysBeforehand) {
  config.context = 512, config.rows = 16, config.run.micro_batch = 16;
  const Gpu gpu(0);
  const uint64_t before = gpu.free_bytes();
  TrainingRun run = fresh();
  run.step();
  EXPECT_GT(run.expected_step_seconds(), 0);
  EXPECT_LE(before - gpu.free_bytes(), run.plan().need.total());
  EXPECT_EQ(run.plan().device, "cuda:0");
  config.context = int64_t{1} << 30;
  EXPECT_FAULT(fresh(), Fault::device, "memory of cuda:0: expected at least ");
}

INSTANTIATE_TEST_SUITE_P(Precisions, GpuRun, testing::Values("fp32", "bf16"),
                         [](const auto& one) { return std::string(one.param); });

// What the operators do not support is found before a GPU is looked for.
TEST(GpuRunUnsupported, NeedsNoGpu) {
  const TrainConfig config = read_config(
      test::run_config({.model = "channels = 64\nhead_size = 16", .run = "device = \"cuda:0\""}),
      "gpu.toml");
  ThreadPool threads(1);
  const ByteTokenizer tokenizer;
  EXPECT_FAULT(TrainingRun(config, tokenizer, {threads}), Fault::usage, "heads of 64 channels");
}

TEST(GpuRunWithoutGpu, SaysSo) {
  if (Gpu::count() > 0) GTEST_SKIP() << "this machine has a CUDA device";
  const TrainConfig config = config_with("fp32");
  ThreadPool threads(1);
  const ByteTokenizer tokenizer;
  EXPECT_FAULT(TrainingRun(config, tokenizer, {threads}), Fault::device,
               "device cuda:0: expected one of 0 CUDA devices");
}

}  // namespace
}  // namespace deltasane::train
