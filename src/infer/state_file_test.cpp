#include "infer/state_file.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <limits>

#include "base/random.h"
#include "infer/state_fixture.h"
#include "support/errors.h"
#include "support/scratch.h"

namespace deltasane {
namespace {

using test::example_expectation;
using test::example_stamp;
using test::example_state;

void expect_equal(const SequenceState& found, const SequenceState& expected) {
  EXPECT_EQ(found.layout(), expected.layout());
  EXPECT_EQ(found.position, expected.position);
  const auto bits = [](std::span<const float> numbers) {
    const auto bytes = std::as_bytes(numbers);
    return std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  };
  EXPECT_EQ(bits(found.fixed()), bits(expected.fixed()));
  for (int64_t i = 0; i < expected.layout().caches(); ++i)
    EXPECT_EQ(bits(found.cache(i)), bits(expected.cache(i))) << "cache " << i;
}

TEST(StateFile, ComesBackBitForBit) {
  const test::Scratch scratch;
  const fs::path path = scratch.path() / "state";
  SequenceState state = example_state(1);
  test::mutable_memories(state)[0] = -0.0f;
  test::mutable_memories(state)[1] = std::numeric_limits<float>::denorm_min();
  test::mutable_memories(state)[2] = -std::numeric_limits<float>::max();
  for (const int64_t position : {int64_t{0}, int64_t{1} << 31, INT64_MAX}) {
    state.position = position;
    save_state(path, state, example_stamp());
    const SavedState saved = load_state(path, example_expectation());
    expect_equal(saved.state, state);
    EXPECT_EQ(saved.stamp, example_stamp());
  }
}

TEST(StateFile, OfAnyLayoutComesBackBitForBit) {
  const test::Scratch scratch;
  const fs::path path = scratch.path() / "state";
  SequenceState state = test::mixed_state(1);
  StateExpectation expected = example_expectation();
  expected.layout = state.shared_layout();
  for (const size_t rows : {3u, 0u, 1u, 50u}) {
    state.mutable_cache(0).assign(rows * 6, float(rows));
    state.mutable_cache(1).assign((50 - rows) * 4, -float(rows));
    save_state(path, state, example_stamp());
    const SavedState saved = load_state(path, expected);
    expect_equal(saved.state, state);
    EXPECT_EQ(saved.stamp, example_stamp());
  }
  state.mutable_cache(0).back() = std::numeric_limits<float>::infinity();
  EXPECT_FAULT(save_state(path, state, example_stamp()), Fault::overflow,
               "in layer 0, keys: row 49, channel 5 is infinity");
}

TEST(StateFile, EverythingButTheModelMayBeAbsent) {
  const test::Scratch scratch;
  const fs::path path = scratch.path() / "state";
  const StateStamp stamp;
  save_state(path, example_state(2), stamp);
  const MappedFile file(path);
  const SavedState saved = read_state(file.bytes(), "state");
  EXPECT_EQ(saved.stamp, stamp);
  expect_equal(saved.state, example_state(2));
}

TEST(StateFile, RefusesTheStateOfAnotherModel) {
  const test::Scratch scratch;
  const fs::path path = scratch.path() / "state";
  save_state(path, example_state(1), example_stamp());
  StateExpectation expected = example_expectation();
  expected.model_identity = 8;
  expected.model_name = "other";
  EXPECT_FAULT(load_state(path, expected), Fault::file,
               "model: expected 'other' (identity 0000000000000008), found 'small \\xf0\\x9f\\x90\\xa6' (identity "
               "0000011f71fb04cb); a state belongs to the model that made it");
  expected = example_expectation();
  expected.layout = test::uniform_layout(4, 6, 2, 3);
  EXPECT_FAULT(load_state(path, expected), Fault::file,
               "state: expected time mix shift of layer 2 (6), found memory of layer 0 (2, 3, 3); "
               "load the model that made the state");
  for (const auto& other : {test::uniform_layout(2, 8, 2, 3), test::uniform_layout(2, 6, 3, 3),
                            test::uniform_layout(2, 6, 2, 4), test::uniform_layout(1, 6, 2, 3)}) {
    expected.layout = other;
    EXPECT_FAULT(load_state(path, expected), Fault::file, "state: expected ");
  }
}

TEST(StateFile, KeepsARunTimeAlphaBelowZero) {
  const test::Scratch scratch;
  const fs::path path = scratch.path() / "state";
  StateStamp stamp = example_stamp();
  stamp.sane = {SaneKind::run_time, -1.4, 16};
  save_state(path, example_state(1), stamp);
  StateExpectation expected = example_expectation();
  expected.sane = stamp.sane;
  EXPECT_EQ(load_state(path, expected).stamp.sane, stamp.sane);
}

TEST(StateFile, RefusesAnotherSaneUnlessToldOtherwise) {
  const test::Scratch scratch;
  const fs::path path = scratch.path() / "state";
  save_state(path, example_state(1), example_stamp());
  for (const SaneUse& sane :
       {SaneUse{}, SaneUse{SaneKind::trained, 3, 16}, SaneUse{SaneKind::run_time, 3, 32},
        SaneUse{SaneKind::run_time, 3.0000001, 16}}) {
    StateExpectation expected = example_expectation();
    expected.sane = sane;
    EXPECT_FAULT(load_state(path, expected), Fault::file,
                 cat("SANE: expected ", to_string(sane),
                     ", found run-time SANE with alpha 3, chunk 16; run the model as the state was made, "
                     "or accept another SANE"));
    expected.other_sane = OtherSane::accept;
    EXPECT_EQ(load_state(path, expected).stamp.sane, example_stamp().sane);
  }
}

TEST(StateFile, NeverHoldsNumbersThatAreNotFinite) {
  const test::Scratch scratch;
  const fs::path path = scratch.path() / "state";
  save_state(path, example_state(1), example_stamp());
  SequenceState lost = example_state(2);
  test::mutable_memories(lost)[20] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_FAULT(
      save_state(path, lost, example_stamp()), Fault::overflow,
      "not written: state overflowed at position 1002 in layer 1, head 0: row 0, column 2");
  expect_equal(load_state(path, example_expectation()).state, example_state(1));
}

TEST(StateFile, RefusesToWriteWhatItWouldNotRead) {
  const test::Scratch scratch;
  const fs::path path = scratch.path() / "state";
  const auto refuses = [&](auto change, Fault fault, std::string_view part) {
    SequenceState state = example_state(1);
    StateStamp stamp = example_stamp();
    change(state, stamp);
    EXPECT_FAULT(save_state(path, state, stamp), fault, part);
    EXPECT_FALSE(fs::exists(path));
  };
  refuses([](auto& state, auto&) { state = {}; }, Fault::file,
          "expected 1 to 65536 parts, found 0");
  for (const std::string& name : {std::string(), std::string(65, 'x'), std::string("a\nb")})
    refuses(
        [&](auto& state, auto&) {
          StateLayout layout;
          layout.add(name, StateKind::shift, 0, {3});
          state = SequenceState(std::make_shared<const StateLayout>(std::move(layout)));
        },
        Fault::argument, "expected a name of 1 to 64 bytes of printable ASCII");
  refuses([](auto& state, auto&) { state.position = -1; }, Fault::argument, "position");
  refuses([](auto&, auto& stamp) { stamp.last_token = -1; }, Fault::argument, "last token");
  refuses([](auto&, auto& stamp) { stamp.model_name.resize(5000); }, Fault::argument, "5000");
  refuses([](auto&, auto& stamp) { stamp.creator.resize(257); }, Fault::argument, "257");
  refuses([](auto&, auto& stamp) { stamp.sampler.resize(17 << 20); }, Fault::argument, "header");
  refuses([](auto&, auto& stamp) { stamp.sane.alpha = -3; }, Fault::file, "alpha -3");
  refuses([](auto&, auto& stamp) { stamp.sane = {SaneKind::trained, -1, 16}; }, Fault::file,
          "trained with alpha -1");
  refuses([](auto&, auto& stamp) { stamp.sane.kind = SaneKind::none; }, Fault::file, "none with");
}

TEST(StateFile, AFullDiskLeavesTheStateBefore) {
  const test::Scratch scratch;
  const fs::path path = scratch.path() / "state";
  save_state(path, example_state(1), example_stamp());
  struct rlimit before;
  getrlimit(RLIMIT_FSIZE, &before);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  for (const rlim_t limit : {0, 1, 64, 250, int(fs::file_size(path)) - 1}) {
    const struct rlimit tight { limit, before.rlim_max };
    setrlimit(RLIMIT_FSIZE, &tight);
    EXPECT_FAULT(save_state(path, example_state(2), example_stamp()), Fault::file, "cannot write");
  }
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  expect_equal(load_state(path, example_expectation()).state, example_state(1));
  EXPECT_EQ(std::distance(fs::directory_iterator(scratch.path()), fs::directory_iterator{}), 1);
}

// Every state differs from the one before in every number, so that a mixture would be seen.
SequenceState numbered_state(int64_t number) {
  SequenceState state(test::uniform_layout(4, 256, 4, 64));
  state.position = number;
  std::ranges::fill(test::mutable_memories(state), float(number));
  std::ranges::fill(test::mutable_shifts(state), float(number));
  return state;
}

[[noreturn]] void save_until_killed(const fs::path& path, int64_t number) {
  for (;;) save_state(path, numbered_state(++number), {});
}

TEST(StateFile, IsWholeWheneverTheProgramIsKilled) {
  const test::Scratch scratch;
  const fs::path path = scratch.path() / "state";
  save_state(path, numbered_state(0), {});
  Random random(1);
  int64_t number = 0;
  int interrupted = 0;
  for (int round = 0; round < 100; ++round) {
    const pid_t child = fork();
    if (child == 0) save_until_killed(path, number);
    ASSERT_GT(child, 0);
    usleep(useconds_t(random.below(10000)));
    kill(child, SIGKILL);
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status)) << "the child ended by itself";
    const MappedFile file(path);
    const SavedState saved = read_state(file.bytes(), "state");
    EXPECT_GE(saved.state.position, number);
    number = saved.state.position;
    expect_equal(saved.state, numbered_state(number));
    const auto files = std::distance(fs::directory_iterator(scratch.path()), {});
    EXPECT_LE(files, 2) << "the next writer removes what one that was killed left behind";
    interrupted += files > 1;
  }
  save_state(path, numbered_state(++number), {});
  EXPECT_EQ(std::distance(fs::directory_iterator(scratch.path()), {}), 1);
  EXPECT_GT(number, 0) << "nothing was ever saved";
  EXPECT_GT(interrupted, 0) << "no save was ever interrupted";
}

}  // namespace
}  // namespace deltasane
