// The smallest recipe in examples/, for a part of its steps: loss falls, answers come.
#include <gtest/gtest.h>

#include "base/io/file.h"
#include "eval/answer_accuracy.h"
#include "text/byte_tokenizer.h"
#include "train/run.h"

namespace deltasane::train {
namespace {

TEST(Learning, TheOneMinuteRecipeLearnsInAFewSeconds) {
  const fs::path recipe = fs::path(DELTASANE_SOURCE) / "examples/one_minute.toml";
  TrainConfig config = read_config(read_file(recipe), recipe.string());
  config.schedule.steps = 220;
  config.corpus.answers_only = true;  // takes fewer steps than to learn all of the text
  ThreadPool threads(1);
  const ByteTokenizer tokenizer;
  TrainingRun run(config, tokenizer, {threads}, nullptr,
                  [&](const LanguageModel& model, const TrainConfig::Evaluation& e) {
                    return eval::answer_accuracy(model, tokenizer, e.answers, e.problems,
                                                 e.longest_answer, {threads});
                  });
  const EvaluationReport before = run.evaluate();
  while (!run.finished()) run.step();
  const EvaluationReport after = run.evaluate();
  RecordProperty("loss_before", cat(*before.loss));
  RecordProperty("loss_after", cat(*after.loss));
  RecordProperty("accuracy_after", cat(*after.accuracy));
  EXPECT_LT(*after.loss, *before.loss / 5);
  EXPECT_EQ(*before.accuracy, 0);
  EXPECT_GT(*after.accuracy, 0.5);
}

}  // namespace
}  // namespace deltasane::train
