#include "eval/stream/problem_probe.h"

#include <gtest/gtest.h>

#include "format/rwkv7_write.h"
#include "model/random_rwkv7.h"
#include "support/scratch.h"
#include "text/byte_tokenizer.h"

namespace deltasane {
namespace {

TEST(ProblemProbe, FindsTheAnswerInWhatWasWritten) {
  EXPECT_TRUE(answer_is_right(" 37 + 85 = 122. The answer is 122.", "122"));
  EXPECT_TRUE(answer_is_right(" first 3, then \\boxed{-4}. Not 5.", "-4"));
  EXPECT_TRUE(answer_is_right("12", "12"));
  EXPECT_TRUE(answer_is_right("about 1,234.", "1234"));
  EXPECT_TRUE(answer_is_right("x = -7", "-7"));
  EXPECT_TRUE(answer_is_right("10-7", "7"));
  EXPECT_TRUE(answer_is_right("3/4", "3/4"));
  EXPECT_TRUE(answer_is_right("2.50 and 2.5", "2.5"));
  EXPECT_FALSE(answer_is_right("7", "-7"));
  EXPECT_FALSE(answer_is_right("-7", "7"));
  EXPECT_FALSE(answer_is_right("1122", "122"));
  EXPECT_FALSE(answer_is_right("", "0"));
  EXPECT_FALSE(answer_is_right("\\boxed{12", "2"));
}

TEST(ProblemProbe, LeavesTheStateAloneAndIsRepeatable) {
  const test::Scratch scratch;
  const fs::path path = scratch.path() / "m";
  const Rwkv7Shape shape{2, 32, 2, 16, 64, 256, 4, 4, 4, 4};
  write_rwkv7_safetensors(path, RandomRwkv7(shape, 1), StoredType::f32, {});
  const Rwkv7 model(Rwkv7Checkpoint(path), {});
  const ByteTokenizer tokenizer;
  ThreadPool threads(2);
  const ProblemProbe probe{model, tokenizer, {threads}, {}, 12};
  const RecurrentState state = model.fresh_state();
  const ProbeOutcome first = probe(state, 19), second = probe(state, 19);
  EXPECT_EQ(first.asked, 19);
  EXPECT_EQ(first.correct, second.correct);
  EXPECT_EQ(state.position, 0);
  for (const float entry : state.memory().span()) EXPECT_EQ(entry, 0);
}

}  // namespace
}  // namespace deltasane
