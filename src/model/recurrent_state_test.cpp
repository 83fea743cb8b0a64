#include "model/recurrent_state.h"

#include <gtest/gtest.h>

#include <vector>

namespace deltasane {
namespace {

constexpr StateShape two_layers{2, 6, 2, 3};

// A device that is not one: a copy beside the state, and how often it was asked.
class FakeMirror : public StateMirror {
 public:
  FakeMirror(float shift, float memory, int& downloads)
      : shift_(shift), memory_(memory), downloads_(downloads) {}
  std::unique_ptr<StateMirror> clone() const override {
    return std::make_unique<FakeMirror>(shift_, memory_, downloads_);
  }
  void download(std::span<float> shift, std::span<float> memory) const override {
    ++downloads_;
    std::ranges::fill(shift, shift_);
    std::ranges::fill(memory, memory_);
  }
  Magnitudes largest() const override { return {memory_, shift_}; }
  std::vector<double> head_norms() const override { return {1, 2, 3, double(memory_)}; }

 private:
  float shift_, memory_;
  int& downloads_;
};

struct OnDevice {
  int downloads = 0;
  RecurrentState state{two_layers};
  OnDevice() {
    state.keep_mirror(std::make_unique<FakeMirror>(3.0f, 4.0f, downloads));
    state.changed_on_device();
    state.position = 7;
  }
};

TEST(RecurrentState, BeginsAsZeroAndHere) {
  const RecurrentState state(two_layers);
  EXPECT_EQ(state.memory().elements(), 2 * 2 * 9);
  EXPECT_EQ(state.shift().elements(), 2 * 2 * 6);
  for (const float value : state.memory().span()) EXPECT_EQ(value, 0);
  EXPECT_EQ(state.mirror(), nullptr);
  EXPECT_FALSE(state.largest_on_device());
  EXPECT_FALSE(state.head_norms_on_device());
}

TEST(RecurrentState, IsBroughtHereOnceWhenLookedAt) {
  OnDevice on;
  ASSERT_TRUE(on.state.largest_on_device());
  EXPECT_EQ(on.state.largest_on_device()->memory, 4.0f);
  ASSERT_TRUE(on.state.head_norms_on_device());
  EXPECT_EQ(on.state.head_norms_on_device()->back(), 4.0);
  EXPECT_EQ(on.downloads, 0);
  EXPECT_EQ(on.state.memory()[35], 4.0f);
  EXPECT_EQ(on.state.shift()[23], 3.0f);
  EXPECT_EQ(on.downloads, 1);
  EXPECT_NE(on.state.mirror(), nullptr);  // still the same there
  on.state.changed_on_device();
  EXPECT_EQ(on.state.memory()[0], 4.0f);
  EXPECT_EQ(on.downloads, 2);
}

TEST(RecurrentState, LosesItsMirrorWhenChangedHere) {
  OnDevice on;
  on.state.mutable_memory()[1] = 9;
  EXPECT_EQ(on.state.mirror(), nullptr);
  EXPECT_EQ(on.state.memory()[1], 9);
  EXPECT_EQ(on.state.memory()[0], 4.0f);
  EXPECT_EQ(on.state.shift()[0], 3.0f);
  EXPECT_EQ(on.downloads, 1);
}

TEST(RecurrentState, IsCopiedWhereItIs) {
  OnDevice on;
  RecurrentState copy = on.state.clone();
  EXPECT_EQ(on.downloads, 0);
  EXPECT_EQ(copy.position, 7);
  on.state.mutable_memory().fill(1);
  EXPECT_EQ(copy.memory()[3], 4.0f);
  const RecurrentState third = copy.clone(), here = on.state.clone();
  EXPECT_EQ(third.shift()[3], 3.0f);
  EXPECT_EQ(here.memory()[3], 1.0f);
  EXPECT_EQ(here.shift()[3], 3.0f);
  RecurrentState moved = std::move(copy);
  EXPECT_EQ(moved.memory()[5], 4.0f);
}

}  // namespace
}  // namespace deltasane
