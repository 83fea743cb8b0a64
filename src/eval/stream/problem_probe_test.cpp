#include "eval/stream/problem_probe.h"

#include <gtest/gtest.h>

#include "model/fixture_forward.h"
#include "model/rwkv7/checkpoint/write.h"
#include "model/rwkv7/model.h"
#include "model/rwkv7/random.h"
#include "support/scratch.h"
#include "text/byte_tokenizer.h"

namespace deltasane {
namespace {

TEST(ProblemProbe, LeavesTheStateAloneAndIsRepeatable) {
  const test::Scratch scratch;
  const fs::path path = scratch.path() / "m";
  const Rwkv7Shape shape{2, 32, 2, 16, 64, 256, 4, 4, 4, 4};
  write_rwkv7_safetensors(path, RandomRwkv7(shape, 1), StoredType::f32, {});
  const Rwkv7 model(Rwkv7Checkpoint(path), {});
  const ByteTokenizer tokenizer;
  ThreadPool threads(2);
  const ProblemProbe probe{model, tokenizer, {threads}, {}, 12};
  const SequenceState state = model.fresh_state();
  const ProbeOutcome first = probe(state, 19), second = probe(state, 19);
  EXPECT_EQ(first.asked, 19);
  EXPECT_EQ(first.correct, second.correct);
  EXPECT_EQ(state.position, 0);
  for (const float entry : test::memories(state)) EXPECT_EQ(entry, 0);
}

}  // namespace
}  // namespace deltasane
