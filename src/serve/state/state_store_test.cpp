#include "serve/state/state_store.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <atomic>
#include <csignal>
#include <future>

#include "base/threads.h"
#include "model/registry.h"
#include "support/scratch.h"

namespace deltasane::serve {
namespace {

int status_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Refusal& refusal) {
    return refusal.status;
  }
  return 200;
}

struct StateStoreTest : testing::Test {
  deltasane::test::Scratch scratch;
  ThreadPool threads{1};
  Metrics metrics;
  std::unique_ptr<LanguageModel> model =
      open_model(fs::path(DELTASANE_SOURCE) / "models/arithmetic-sane-3.safetensors", {});
  fs::path folder = scratch.path() / "states";

  std::unique_ptr<StateStore> open(StateStoreSettings settings) {
    return std::make_unique<StateStore>(*model, "small", std::move(settings), metrics);
  }
  std::unique_ptr<StateStore> open() { return open({.folder = folder}); }
  // A state that has read so many tokens.
  SequenceState state(int32_t count) {
    SequenceState made = model->fresh_state();
    const std::vector<int32_t> tokens(size_t(count), 'a' + count);
    model->forward({tokens, &made}, {threads});
    return made;
  }
  static bool equal(const SequenceState& a, const SequenceState& b) {
    return a.position == b.position && std::ranges::equal(a.fixed(), b.fixed());
  }
  size_t files() const {
    size_t count = 0;
    for (const auto& file : fs::directory_iterator(folder))
      count += file.path().extension() == ".state";
    return count;
  }
};

TEST_F(StateStoreTest, KeepsStatesOverARestart) {
  std::string first, second, copy;
  {
    const auto store = open();
    first = store->keep("me", state(3), {7, 8});
    second = store->keep("me", state(5), {});
    copy = store->fork("me", first);
    store->remove("me", first);
    EXPECT_EQ(files(), 2u);  // the copy uses it
  }
  const auto store = open();
  EXPECT_EQ(status_of([&] { store->find("me", first); }), 404);
  EXPECT_TRUE(equal(*store->find("me", copy).state, state(3)));
  EXPECT_EQ(store->find("me", copy).unread, (std::vector<int32_t>{7, 8}));
  EXPECT_TRUE(equal(*store->find("me", second).state, state(5)));
  EXPECT_EQ(store->list("me").size(), 2u);
  store->remove("me", copy);
  EXPECT_EQ(files(), 1u);
}

TEST_F(StateStoreTest, ShowsAnOwnerHisOwnOnly) {
  const auto store = open({});
  const std::string id = store->keep("me", state(2), {});
  EXPECT_EQ(id.size(), 6 + 32u);
  for (const auto& call : std::vector<std::function<void()>>{
           [&] { store->find("you", id); }, [&] { store->describe("", id); },
           [&] { store->fork("you", id); }, [&] { store->remove("you", id); },
           [&] { store->export_file("you", id); }, [&] { store->find("me", "state_0"); }})
    EXPECT_EQ(status_of(call), 404);
  EXPECT_TRUE(store->list("you").empty());
  EXPECT_EQ(store->find("me", id).state->position, 2);
}

TEST_F(StateStoreTest, HoldsWhatWasUsedLastInMemory) {
  const uint64_t bytes = model->fresh_state().bytes();
  const auto on_disk = open({.folder = folder, .host_bytes = 2 * bytes});
  std::vector<std::string> ids;
  for (int32_t i = 1; i <= 4; ++i) ids.push_back(on_disk->keep("me", state(i), {}));
  EXPECT_EQ(metrics.value("states", "tier=\"host\""), 2);
  EXPECT_EQ(metrics.value("states", "tier=\"disk\""), 4);
  for (int32_t i = 1; i <= 4; ++i)
    EXPECT_TRUE(equal(*on_disk->find("me", ids[size_t(i - 1)]).state, state(i)));
  EXPECT_GT(metrics.value("state_moves_total", "from=\"disk\",to=\"host\""), 0);
  const auto in_memory = open({.host_bytes = 2 * bytes});
  ids.clear();
  for (int32_t i = 1; i <= 3; ++i) ids.push_back(in_memory->keep("me", state(i), {}));
  EXPECT_EQ(status_of([&] { in_memory->find("me", ids[0]); }), 404);
  EXPECT_EQ(in_memory->find("me", ids[2]).state->position, 3);
}

TEST_F(StateStoreTest, RefusesBeyondAQuotaAndWhatIsNotFinite) {
  const auto store = open({.states_of_owner = 2});
  store->keep("me", state(1), {});
  const std::string id = store->keep("me", state(1), {});
  EXPECT_EQ(status_of([&] { store->keep("me", state(1), {}); }), 403);
  EXPECT_EQ(status_of([&] { store->fork("me", id); }), 403);
  EXPECT_EQ(status_of([&] { store->keep("you", state(1), {}); }), 200);
  SequenceState broken = state(1);
  broken.mutable_fixed()[5] = INFINITY;
  EXPECT_EQ(status_of([&] { store->keep("you", std::move(broken), {}); }), 500);
}

TEST_F(StateStoreTest, TakesFilesOfThisModelOnly) {
  const auto store = open({});
  const std::string id = store->keep("me", state(9), {65});
  const std::string bytes = store->export_file("me", id);
  const std::string copy = store->import_file("you", bytes);
  EXPECT_TRUE(equal(*store->find("you", copy).state, state(9)));
  EXPECT_EQ(store->find("you", copy).unread, std::vector<int32_t>{65});
  for (size_t at = 0; at < bytes.size(); at += 4093) {
    std::string damaged = bytes;
    damaged[at] = char(damaged[at] ^ 1);
    EXPECT_THROW(store->import_file("you", damaged), Error) << at;
  }
  EXPECT_THROW(store->import_file("you", bytes.substr(0, bytes.size() - 1)), Error);
  EXPECT_THROW(store->import_file("you", ""), Error);
}

TEST_F(StateStoreTest, SurvivesAWriterThatWasKilled) {
  std::string first, second;
  {
    const auto store = open();
    first = store->keep("me", state(1), {});
    second = store->keep("me", state(2), {});
  }
  const std::string whole = read_file(folder / "index.jsonl");
  const std::string stray = (folder / "state_stray.state").string();
  // Wherever the last line of the index was cut off, the state before it is there.
  for (size_t length = whole.find('\n') + 1; length < whole.size(); length += 31) {
    replace_file(folder / "index.jsonl", whole.substr(0, length));
    const auto kept = read_file(folder / (second + ".state"));
    replace_file(stray, "half a state");
    {
      const auto store = open();
      EXPECT_EQ(store->list("me").size(), 1u);
      EXPECT_TRUE(equal(*store->find("me", first).state, state(1)));
      EXPECT_FALSE(fs::exists(stray));
      store->remove("me", store->keep("me", state(3), {}));
    }
    replace_file(folder / (second + ".state"), kept);
  }
  // A damaged line is not dropped in silence.
  std::string damaged = whole;
  damaged[10] = char(damaged[10] ^ 1);
  replace_file(folder / "index.jsonl", damaged);
  EXPECT_THROW(open(), Error);
  replace_file(folder / "index.jsonl", whole);
  fs::remove(folder / (first + ".state"));
  EXPECT_EQ(open()->list("me").size(), 1u);
}

TEST_F(StateStoreTest, AFullDiskLosesNothing) {
  const auto store = open();
  const std::string first = store->keep("me", state(1), {});
  struct rlimit before {};
  ::getrlimit(RLIMIT_FSIZE, &before);
  const auto handler = ::signal(SIGXFSZ, SIG_IGN);
  const struct rlimit full{4096, before.rlim_max};
  ::setrlimit(RLIMIT_FSIZE, &full);
  std::string why;
  std::promise<void> done;
  store->keep_later("me", state(2), {}, [&](const std::string&, const Refusal* refusal) {
    why = refusal ? refusal->code : "kept";
    done.set_value();
  });
  done.get_future().wait();
  ::setrlimit(RLIMIT_FSIZE, &before);
  ::signal(SIGXFSZ, handler);
  EXPECT_EQ(why, "state_not_kept");
  EXPECT_EQ(files(), 1u);
  EXPECT_EQ(store->list("me").size(), 1u);
  EXPECT_TRUE(equal(*store->find("me", first).state, state(1)));
  store->keep("me", state(3), {});
  EXPECT_EQ(store->list("me").size(), 2u);
}

// A device that counts the states that it has.
class CountingDevice final : public DeviceState {
 public:
  CountingDevice(std::vector<float> numbers, std::atomic<int>& count)
      : numbers_(std::move(numbers)), count_(count) {
    ++count_;
  }
  ~CountingDevice() override { --count_; }
  std::unique_ptr<DeviceState> clone() const override {
    return std::make_unique<CountingDevice>(numbers_, count_);
  }
  void download(StateNumbers& to) const override { std::ranges::copy(numbers_, to.fixed.span().begin()); }
  Magnitudes largest() const override { fail(Fault::device, "the engine's queue was used"); }
  std::vector<double> head_norms() const override { fail(Fault::device, "the engine's queue was used"); }

 private:
  std::vector<float> numbers_;
  std::atomic<int>& count_;
};

TEST_F(StateStoreTest, LeavesToTheHostWhatADeviceHasNoRoomFor) {
  std::atomic<int> count = 0;
  const auto on_device = [&](int32_t tokens) {
    const SequenceState plain = state(tokens);
    SequenceState made = model->fresh_state();
    made.position = plain.position;
    made.keep_on_device(std::make_unique<CountingDevice>(
        std::vector<float>(plain.fixed().begin(), plain.fixed().end()), count));
    made.changed_on_device();
    return made;
  };
  for (const fs::path& place : {fs::path(), folder}) {
    std::vector<std::string> ids;
    {
      const auto store = open({.folder = place, .device_bytes = 2 * model->fresh_state().bytes()});
      for (int32_t tokens = 1; tokens <= 5; ++tokens) {
        if (tokens == 5) store->find("me", ids[2]);  // and is then not the least recently used
        ids.push_back(store->keep("me", on_device(tokens), {}));
      }
      std::promise<void> done;  // after what was moved before it
      store->keep_later("me", state(6), {}, [&](const std::string&, const Refusal*) { done.set_value(); });
      done.get_future().wait();
      EXPECT_EQ(count, 2);
      for (int32_t tokens = 1; tokens <= 5; ++tokens) {
        const KeptState kept = store->find("me", ids[size_t(tokens - 1)]);
        EXPECT_TRUE(equal(*kept.state, state(tokens))) << tokens;
        EXPECT_EQ(kept.state->on_device() != nullptr, tokens == 3 || tokens == 5) << tokens;
      }
    }
    EXPECT_EQ(count, 0);
  }
}

TEST_F(StateStoreTest, SaysThatAFileWasTakenAway) {
  const auto store = open({.folder = folder, .host_bytes = 1});
  const std::string gone = store->keep("me", state(1), {}), here = store->keep("me", state(2), {});
  fs::remove(folder / (gone + ".state"));
  EXPECT_EQ(status_of([&] { store->find("me", gone); }), 404);
  EXPECT_EQ(store->find("me", here).state->position, 2);
}

TEST_F(StateStoreTest, IsHeldByOneProcess) {
  const auto store = open();
  EXPECT_THROW(open(), Error);
}

}  // namespace
}  // namespace deltasane::serve
