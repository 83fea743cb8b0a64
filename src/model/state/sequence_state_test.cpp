#include "model/state/sequence_state.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

#include "model/fixture_forward.h"

namespace deltasane {
namespace {

using test::memories;
using test::mutable_memories;
using test::shifts;

// Two layers with square heads; the second also has a cache of keys and one of values.
std::shared_ptr<const StateLayout> two_layers(bool with_caches = false) {
  StateLayout layout = shifts_and_square_heads(2, 6, 2, 3);
  if (with_caches) {
    layout.add("keys", StateKind::cache, 1, {2, 3});
    layout.add("values", StateKind::cache, 1, {5});
  }
  return std::make_shared<const StateLayout>(std::move(layout));
}

// What a device would hold, and how often it was asked for it.
struct DeviceNumbers {
  float shift, memory;
  std::vector<std::vector<float>> caches;
};

class FakeDevice : public DeviceState {
 public:
  FakeDevice(DeviceNumbers numbers, std::atomic<int>& downloads)
      : numbers_(std::move(numbers)), downloads_(downloads) {}
  std::unique_ptr<DeviceState> clone() const override {
    return std::make_unique<FakeDevice>(numbers_, downloads_);
  }
  void download(StateNumbers& to) const override {
    ++downloads_;
    ASSERT_EQ(to.fixed.elements(), 24 + 36);
    std::ranges::fill(to.fixed.span().first(24), numbers_.shift);
    std::ranges::fill(to.fixed.span().subspan(24), numbers_.memory);
    ASSERT_EQ(to.caches.size(), numbers_.caches.size());
    to.caches = numbers_.caches;
  }
  Magnitudes largest() const override { return {numbers_.memory, numbers_.shift}; }
  std::vector<double> head_norms() const override { return {1, 2, 3, double(numbers_.memory)}; }

 private:
  DeviceNumbers numbers_;
  std::atomic<int>& downloads_;
};

struct OnDevice {
  std::atomic<int> downloads = 0;
  SequenceState state;
  explicit OnDevice(std::vector<std::vector<float>> caches = {})
      : state(two_layers(!caches.empty())) {
    DeviceNumbers numbers{3.0f, 4.0f, std::move(caches)};
    state.keep_on_device(std::make_unique<FakeDevice>(std::move(numbers), downloads));
    state.changed_on_device();
    state.position = 7;
  }
};

TEST(SequenceState, BeginsAsZeroAndOnTheHost) {
  const SequenceState state(two_layers());
  EXPECT_EQ(memories(state).size(), 2u * 2 * 9);
  EXPECT_EQ(shifts(state).size(), 2u * 2 * 6);
  for (const float value : state.fixed()) EXPECT_EQ(value, 0);
  EXPECT_EQ(state.bytes(), (2u * 2 * 9 + 2 * 2 * 6) * sizeof(float));
  EXPECT_EQ(state.on_device(), nullptr);
  EXPECT_FALSE(state.largest_on_device());
  EXPECT_FALSE(state.head_norms_on_device());
  EXPECT_EQ(SequenceState().bytes(), 0u);
}

TEST(SequenceState, IsDownloadedOnceWhenRead) {
  OnDevice on;
  ASSERT_TRUE(on.state.largest_on_device());
  EXPECT_EQ(on.state.largest_on_device()->memory, 4.0f);
  EXPECT_EQ(on.state.largest_on_device()->others, 3.0f);
  ASSERT_TRUE(on.state.head_norms_on_device());
  EXPECT_EQ(on.state.head_norms_on_device()->back(), 4.0);
  EXPECT_EQ(on.downloads, 0);
  EXPECT_EQ(memories(on.state)[35], 4.0f);
  EXPECT_EQ(shifts(on.state)[23], 3.0f);
  EXPECT_EQ(on.downloads, 1);
  EXPECT_NE(on.state.on_device(), nullptr);  // still the same there
  EXPECT_FALSE(on.state.largest_on_device());
  on.state.changed_on_device();
  EXPECT_EQ(memories(on.state)[0], 4.0f);
  EXPECT_EQ(on.downloads, 2);
}

TEST(SequenceState, LosesTheDevicesCopyWhenChangedOnTheHost) {
  OnDevice on;
  mutable_memories(on.state)[1] = 9;
  EXPECT_EQ(on.state.on_device(), nullptr);
  EXPECT_EQ(memories(on.state)[1], 9);
  EXPECT_EQ(memories(on.state)[0], 4.0f);
  EXPECT_EQ(shifts(on.state)[0], 3.0f);
  EXPECT_EQ(on.downloads, 1);
}

TEST(SequenceState, IsCopiedWhereItIs) {
  OnDevice on;
  on.state.alphas = {1, 2, 3, 4};
  SequenceState copy = on.state.clone();
  EXPECT_EQ(on.downloads, 0);
  EXPECT_EQ(copy.position, 7);
  EXPECT_EQ(copy.alphas, on.state.alphas);
  EXPECT_EQ(copy.shared_layout(), on.state.shared_layout());
  std::ranges::fill(mutable_memories(on.state), 1.0f);
  EXPECT_EQ(memories(copy)[3], 4.0f);
  const SequenceState third = copy.clone(), on_host = on.state.clone();
  EXPECT_EQ(shifts(third)[3], 3.0f);
  EXPECT_EQ(memories(on_host)[3], 1.0f);
  EXPECT_EQ(shifts(on_host)[3], 3.0f);
  SequenceState moved = std::move(copy);
  EXPECT_EQ(memories(moved)[5], 4.0f);
}

TEST(SequenceState, PartsAreWhereTheLayoutSays) {
  SequenceState state(two_layers());
  for (size_t i = 0; i < state.fixed().size(); ++i) state.mutable_fixed()[i] = float(i);
  const auto parts = state.layout().parts();
  EXPECT_EQ(state.of(parts[3])[0], 18.0f);  // of layer 1: the channel mix shift
  EXPECT_EQ(state.of(parts[5])[0], 24.0f + 18);
  EXPECT_EQ(state.of(parts[5]).size(), 18u);
  EXPECT_EQ(state.of(state.layout().heads()[3])[8], 24.0f + 35);
  state.mutable_of(parts[4])[17] = -1;
  EXPECT_EQ(state.of(state.layout().heads()[1])[8], -1);
}

TEST(SequenceState, CachesGrowAndAreCopied) {
  SequenceState state(two_layers(true));
  const auto parts = state.layout().parts();
  ASSERT_EQ(state.layout().caches(), 2);
  EXPECT_TRUE(state.cache(0).empty());
  const uint64_t empty = state.bytes();
  for (int64_t token = 0; token < 3; ++token) {
    state.mutable_cache(0).insert(state.mutable_cache(0).end(), 6, float(token));
    state.mutable_cache(1).insert(state.mutable_cache(1).end(), 5, float(10 + token));
  }
  EXPECT_EQ(state.bytes(), empty + 3 * (6 + 5) * sizeof(float));
  EXPECT_EQ(state.of(parts[6]).size(), 18u);
  EXPECT_EQ(state.of(parts[7])[14], 12.0f);
  SequenceState copy = state.clone();
  state.mutable_of(parts[6])[0] = -1;
  state.mutable_cache(1).resize(5);
  EXPECT_EQ(copy.cache(0)[0], 0.0f);
  EXPECT_EQ(copy.cache(1).size(), 15u);
  EXPECT_EQ(state.cache(1).size(), 5u);
  EXPECT_EQ(state.cache(0)[0], -1.0f);
}

TEST(SequenceState, CachesAreDownloadedWithTheRest) {
  OnDevice on({{1, 2, 3, 4, 5, 6}, std::vector<float>(10, 8)});
  const SequenceState copy = on.state.clone();
  EXPECT_EQ(on.downloads, 0);
  EXPECT_EQ(copy.cache(0)[5], 6.0f);
  EXPECT_EQ(copy.cache(1).size(), 10u);
  EXPECT_EQ(memories(copy)[0], 4.0f);
  EXPECT_EQ(on.downloads, 1);
  on.state.mutable_cache(1).clear();
  EXPECT_EQ(on.state.on_device(), nullptr);
  EXPECT_EQ(on.state.cache(0)[0], 1.0f);
  EXPECT_EQ(copy.cache(1).size(), 10u);
  EXPECT_EQ(on.state.bytes(), (24u + 36 + 6) * sizeof(float));
}

TEST(SequenceState, IsReadByTwoThreadsAtOnce) {
  for (int round = 0; round < 50; ++round) {
    OnDevice on({{1, 2, 3, 4, 5, 6}, {}});
    const SequenceState& state = on.state;
    std::atomic<int> ready = 0, wrong = 0;
    const auto read = [&] {
      for (++ready; ready < 2;) std::this_thread::yield();
      const SequenceState copy = state.clone();
      for (const float value : memories(state)) wrong += value != 4.0f;
      for (const float value : shifts(state)) wrong += value != 3.0f;
      wrong += state.cache(0).size() != 6 || state.cache(0)[5] != 6.0f;
      wrong += memories(copy)[0] != 4.0f;
    };
    std::thread other(read);
    read();
    other.join();
    EXPECT_EQ(wrong, 0);
    EXPECT_EQ(on.downloads, 1 + 2);  // of the state once, and of each copy
  }
}

}  // namespace
}  // namespace deltasane
