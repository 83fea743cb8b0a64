#include <gtest/gtest.h>

#include "eval/stream/problem_probe.h"
#include "model/fixture_forward.h"
#include "model/rwkv7/checkpoint/write.h"
#include "model/rwkv7/fixture_shape.h"
#include "model/rwkv7/model.h"
#include "model/rwkv7/random.h"
#include "support/scratch.h"
#include "tensor/cuda/gpu.h"
#include "text/byte_tokenizer.h"

namespace deltasane {
namespace {

// On a GPU prompts of several lengths are read together.
TEST(ProblemProbeOnGpu, WritesWhatAProcessorWrites) {
  if (Gpu::count() == 0) GTEST_SKIP() << "this machine has no GPU";
  const test::Scratch scratch;
  const fs::path path = scratch.path() / "model.safetensors";
  Rwkv7Shape shape = test::small_gpu_rwkv7();
  shape.vocabulary = 256;
  write_rwkv7_safetensors(path, RandomRwkv7(shape, 1), StoredType::f32, {});
  const ByteTokenizer tokenizer;
  ThreadPool threads(2);
  const auto asked = [&](const Rwkv7& model, bool has_own_alphas) {
    const ProblemProbe probe{model, tokenizer, {threads}, {}, 12};
    SequenceState state = model.fresh_state();
    test::read(model, tokenizer.encode("User: 2 + 2 = "), state, {threads});
    if (has_own_alphas) state.alphas.assign(size_t(shape.layers * shape.heads), 0.5f);
    std::vector<std::string> written;
    for (const AskedProblem& one : probe.ask(state, 70)) written.push_back(one.written);
    EXPECT_EQ(state.position, 14);
    return written;
  };
  const auto open = [&](std::optional<Device> device) {
    OpenOptions options;
    if (device) options.device = *device;
    options.weights = kernel::WeightType::f32, options.sane.alpha = 2;
    return Rwkv7(Rwkv7Checkpoint(path), options);
  };
  const Rwkv7 on_gpu = open(Device{0}), on_cpu = open(std::nullopt);
  const auto fixed = asked(on_gpu, false);
  EXPECT_EQ(fixed.size(), 70u);
  EXPECT_EQ(fixed, asked(on_cpu, false));
  EXPECT_EQ(asked(on_gpu, true), asked(on_cpu, true));
}

}  // namespace
}  // namespace deltasane
