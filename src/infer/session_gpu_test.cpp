#include <gtest/gtest.h>

#include "format/rwkv7_write.h"
#include "infer/session.h"
#include "model/random_rwkv7.h"
#include "support/errors.h"
#include "support/scratch.h"
#include "tensor/cuda/gpu.h"

namespace deltasane {
namespace {

constexpr Rwkv7Shape small{.layers = 3,
                           .channels = 192,
                           .heads = 3,
                           .head_size = 64,
                           .feed_forward = 256,
                           .vocabulary = 50,
                           .rank_w = 32,
                           .rank_a = 32,
                           .rank_v = 32,
                           .rank_g = 32};

struct SessionOnGpu : testing::Test {
  test::Scratch scratch;
  ThreadPool threads{2};
  fs::path path = scratch.path() / "model.safetensors", saved = scratch.path() / "state";

  void SetUp() override {
    if (Gpu::count() == 0) GTEST_SKIP() << "this machine has no GPU";
    write_rwkv7_safetensors(path, RandomRwkv7(small, 1), StoredType::f32, {});
  }
  Rwkv7 open(const Device& device) const {
    Rwkv7Options options;
    options.device = device;
    options.weights = kernel::WeightType::f32;
    return Rwkv7(Rwkv7Checkpoint(path), options);
  }
  std::vector<int32_t> tokens(int count) const {
    std::vector<int32_t> out;
    for (int i = 0; i < count; ++i) out.push_back(int32_t((i * 7919) % small.vocabulary));
    return out;
  }
};

TEST_F(SessionOnGpu, StateFilesAreTheSameOnEveryDevice) {
  const Rwkv7 gpu = open({0}), cpu = open({});
  Session there(gpu, {threads}), here(cpu, {threads});
  there.read(tokens(100));
  there.save(saved, "small", {});
  here.load(saved, "small", OtherSane::refuse);
  EXPECT_EQ(here.state().position, 100);
  EXPECT_TRUE(std::ranges::equal(here.state().memory().span(), there.state().memory().span()));
  EXPECT_TRUE(std::ranges::equal(here.state().shift().span(), there.state().shift().span()));
  here.save(scratch.path() / "again", "small", {});
  Session back(gpu, {threads});
  back.load(scratch.path() / "again", "small", OtherSane::refuse);
  const int32_t next[] = {7};
  there.read(next), back.read(next);
  EXPECT_TRUE(std::ranges::equal(there.logits(), back.logits()));
}

// A head that is about to overflow is found by the scan on the GPU and named.
TEST_F(SessionOnGpu, OverflowIsNoticedAndNamed) {
  for (const Device& device : {Device{}, Device{0}}) {
    const Rwkv7 model = open(device);
    RecurrentState state = model.fresh_state();
    const View<float> memory = state.mutable_memory().view();
    for (int64_t i = 0; i < 64 * 64; ++i) memory.at(1, 2)[i] = i % 2 ? 3e38f : -3e38f;
    StateStamp stamp;
    stamp.model_identity = model.identity();
    stamp.model_name = "small";
    stamp.sane = model.sane();
    save_state(saved, state, stamp);
    for (const int count : {1, 40}) {
      Session session(model, {threads});
      session.load(saved, "small", OtherSane::refuse);
      // One token is scanned at chunk boundaries, or when its logits are broken.
      EXPECT_FAULT(session.read(tokens(count)), Fault::overflow, "in layer 1, head 2");
    }
  }
}

TEST_F(SessionOnGpu, ResetGoesOn) {
  const Rwkv7 model = open({0});
  RecurrentState state = model.fresh_state();
  state.mutable_memory().fill(3e38f);
  StateStamp stamp;
  stamp.model_identity = model.identity();
  stamp.model_name = "small";
  stamp.sane = model.sane();
  save_state(saved, state, stamp);
  Session session(model, {threads}, OnOverflow::reset);
  int resets = 0;
  session.on_reset = [&](const std::string&) { ++resets; };
  session.load(saved, "small", OtherSane::refuse);
  session.read(tokens(40));
  EXPECT_EQ(resets, 1);
  EXPECT_EQ(session.state().position, 40);
  EXPECT_TRUE(scan_state(session.state()).finite());
}

}  // namespace
}  // namespace deltasane
