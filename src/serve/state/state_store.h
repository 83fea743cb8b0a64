// States that clients keep: values with an id that never change, each of one owner.
//
// Where there is a folder, a state is one file (docs/state-file.md) and a line of an index, both
// durable before its id is given out; states that were used last stay in memory too, up to a number
// of bytes. Without a folder states live in memory alone, and the least recently used are forgotten
// beyond that number. A fork is another id for the same numbers.
//
// States of a model on a device come with their numbers there. They stay, up to a number of bytes, so
// that their next turn begins at once; those of the least recently used are left to the host.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/io/folder_lock.h"
#include "infer/state_file.h"
#include "serve/metrics.h"
#include "serve/state/journal.h"

namespace deltasane::serve {

struct StateStoreSettings {
  fs::path folder{};  // empty: memory alone
  uint64_t device_bytes = uint64_t{4} << 30, host_bytes = uint64_t{4} << 30;
  size_t states_of_owner = 4096;
  uint64_t bytes_of_owner = uint64_t{32} << 30;
};

struct KeptState {
  std::shared_ptr<const SequenceState> state;
  std::vector<int32_t> unread;  // tokens of its text that it has not read
};

struct StateRecord {
  std::string id, owner, file;  // file: its name in the folder; shared by forks
  int64_t position = 0, created = 0;
  uint64_t bytes = 0;
  std::vector<int32_t> unread;
};

class StateStore {
 public:
  StateStore(const LanguageModel& model, std::string model_name, StateStoreSettings settings,
             Metrics& metrics);
  ~StateStore();  // after what waits was written

  // Throws Refusal: a quota, numbers that are not finite. Any thread.
  std::string keep(const std::string& owner, SequenceState state, std::vector<int32_t> unread);
  // The same on another thread, so that nobody waits for the disk: calls with the id, or with what
  // went wrong.
  using Kept = std::function<void(const std::string& id, const Refusal* failure)>;
  void keep_later(const std::string& owner, SequenceState state, std::vector<int32_t> unread,
                  Kept kept);

  // These throw a Refusal with 404 where the owner has no such state.
  KeptState find(const std::string& owner, const std::string& id);
  StateRecord describe(const std::string& owner, const std::string& id);
  std::string fork(const std::string& owner, const std::string& id);
  void remove(const std::string& owner, const std::string& id);
  std::string export_file(const std::string& owner, const std::string& id);

  std::string import_file(const std::string& owner, std::string_view bytes);
  std::vector<StateRecord> list(const std::string& owner);

 private:
  struct Entry {
    StateRecord record;
    std::shared_ptr<const SequenceState> state;  // null: on disk only
    std::list<std::string>::iterator used;       // where it is in used_, if it has a state
    bool is_on_device = false;                   // counted as such
  };

  Entry& entry_of(const std::string& owner, const std::string& id);
  void check_quota(const std::string& owner, uint64_t bytes);
  void add(StateRecord record, std::shared_ptr<const SequenceState> state);
  void drop_beyond_budget();
  void drop_memory(Entry& entry);
  void count_device(Entry& entry, bool is_there);
  void leave_device(const std::string& id, const std::shared_ptr<const SequenceState>& state);
  void work_later(std::function<void()> work);
  void take_line(const Json& line);
  uint64_t identity() const;  // of the model: the first time it takes a pass over its file
  StateExpectation expectation() const {
    return {identity(), model_name_, model_.state_layout(), model_.sane(), OtherSane::refuse};
  }
  void save(const fs::path& path, const SequenceState& state, std::optional<int32_t> pending) const;
  fs::path path_of(const std::string& file) const { return settings_.folder / file; }
  void show_sizes();
  void run();

  const LanguageModel& model_;
  const std::string model_name_;
  const StateStoreSettings settings_;
  Metrics& metrics_;
  mutable std::once_flag has_identity_;
  mutable uint64_t identity_ = 0;
  std::unique_ptr<FolderLock> lock_;
  std::unique_ptr<Journal> index_;

  std::mutex mutex_;  // of what follows
  std::map<std::string, Entry> entries_;
  std::map<std::string, size_t> file_uses_;
  std::list<std::string> used_;  // ids with a state in memory, the least recently used first
  uint64_t host_bytes_ = 0, device_bytes_ = 0;
  size_t on_device_ = 0;  // states

  std::mutex queue_mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> queue_;
  bool stops_ = false;
  std::thread writer_;
};

}  // namespace deltasane::serve
