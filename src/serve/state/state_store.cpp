#include "serve/state/state_store.h"

#include <algorithm>
#include <ctime>

#include "infer/state_scan.h"
#include "serve/keys.h"

namespace deltasane::serve {
namespace {

Refusal unknown_state() {
  return Refusal(404, "state_not_found", "no state with this id",
                 "state");
}

Json line_of(const StateRecord& record) {
  return {{"keep", record.id},          {"owner", record.owner}, {"file", record.file},
          {"position", record.position}, {"created", record.created}, {"bytes", record.bytes},
          {"unread", record.unread}};
}

}  // namespace

StateStore::StateStore(const LanguageModel& model, std::string model_name,
                       StateStoreSettings settings, Metrics& metrics)
    : model_(model),
      model_name_(std::move(model_name)),
      settings_(std::move(settings)),
      metrics_(metrics) {
  if (!settings_.folder.empty()) {
    fs::create_directories(settings_.folder);
    fs::permissions(settings_.folder, fs::perms::owner_all);
    lock_ = std::make_unique<FolderLock>(settings_.folder);
    index_ = std::make_unique<Journal>(path_of("index.jsonl"),
                                       [this](const Json& line) { take_line(line); });
    // Files without a line: their writer was killed between the two.
    for (const auto& file : fs::directory_iterator(settings_.folder)) {
      const std::string name = file.path().filename().string();
      if (name.ends_with(".state") && !file_uses_.contains(name)) fs::remove(file.path());
    }
    if (index_->lines() > 2 * entries_.size() + 1000) {
      std::vector<Json> lines;
      for (const auto& [id, entry] : entries_) lines.push_back(line_of(entry.record));
      index_->rewrite(lines);
    }
  }
  show_sizes();
  writer_ = std::thread([this] { run(); });
}

StateStore::~StateStore() {
  {
    const std::lock_guard lock(queue_mutex_);
    stops_ = true;
  }
  changed_.notify_all();
  writer_.join();
}

void StateStore::run() {
  for (;;) {
    std::function<void()> work;
    {
      std::unique_lock lock(queue_mutex_);
      changed_.wait(lock, [&] { return stops_ || !queue_.empty(); });
      if (queue_.empty()) return;
      work = std::move(queue_.front());
      queue_.pop_front();
    }
    work();
  }
}

void StateStore::take_line(const Json& line) {
  if (line.contains("remove")) {
    const auto found = entries_.find(line["remove"].get<std::string>());
    if (found == entries_.end()) return;
    const std::string file = found->second.record.file;
    if (--file_uses_[file] == 0) file_uses_.erase(file);
    entries_.erase(found);
    return;
  }
  StateRecord record;
  record.id = line.at("keep"), record.owner = line.at("owner"), record.file = line.at("file");
  record.position = line.at("position"), record.created = line.at("created");
  record.bytes = line.at("bytes"), record.unread = line.at("unread").get<std::vector<int32_t>>();
  if (!fs::exists(path_of(record.file))) return;  // somebody took it away
  ++file_uses_[record.file];
  const std::string id = record.id;
  entries_[id] = {std::move(record), nullptr, {}};
}

uint64_t StateStore::identity() const {
  std::call_once(has_identity_, [this] { identity_ = model_.identity(); });
  return identity_;
}

void StateStore::save(const fs::path& path, const SequenceState& state,
                      std::optional<int32_t> pending) const {
  StateStamp stamp;
  stamp.model_identity = identity(), stamp.model_name = model_name_, stamp.sane = model_.sane();
  stamp.creator = "deltasane serve";
  stamp.last_token = pending;
  save_state(path, state, stamp);
}

StateStore::Entry& StateStore::entry_of(const std::string& owner, const std::string& id) {
  const auto found = entries_.find(id);
  if (found == entries_.end() || found->second.record.owner != owner) throw unknown_state();
  return found->second;
}

void StateStore::check_quota(const std::string& owner, uint64_t bytes) {
  size_t states = 0;
  for (const auto& [id, entry] : entries_)
    if (entry.record.owner == owner) ++states, bytes += entry.record.bytes;
  if (states >= settings_.states_of_owner || bytes > settings_.bytes_of_owner)
    throw Refusal(403, "quota",
                  cat("states: expected at most ", settings_.states_of_owner, " with ",
                      settings_.bytes_of_owner, " bytes for a key, found more; delete some"));
}

void StateStore::count_device(Entry& entry, bool is_there) {
  if (std::exchange(entry.is_on_device, is_there) == is_there) return;
  device_bytes_ = is_there ? device_bytes_ + entry.record.bytes : device_bytes_ - entry.record.bytes;
  on_device_ = is_there ? on_device_ + 1 : on_device_ - 1;
}

// Whoever continues from the state now keeps the copy that he has.
void StateStore::leave_device(const std::string& id,
                              const std::shared_ptr<const SequenceState>& state) {
  auto on_host = std::make_shared<const SequenceState>(state->clone_on_host());
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(id);
  if (found == entries_.end() || found->second.state != state) return;
  found->second.state = std::move(on_host);
}

void StateStore::drop_memory(Entry& entry) {
  count_device(entry, false);
  host_bytes_ -= entry.record.bytes;
  used_.erase(entry.used);
  entry.state = nullptr;
}

void StateStore::drop_beyond_budget() {
  for (auto id = used_.begin(); id != used_.end() && device_bytes_ > settings_.device_bytes; ++id) {
    Entry& entry = entries_.at(*id);
    if (!entry.is_on_device) continue;
    count_device(entry, false);
    metrics_.add("state_moves_total", 1, "from=\"gpu\",to=\"host\"");
    work_later([this, id = *id, state = entry.state] { leave_device(id, state); });
  }
  while (host_bytes_ > settings_.host_bytes && used_.size() > 1) {
    const std::string id = used_.front();
    drop_memory(entries_.at(id));
    if (!index_) entries_.erase(id);
    metrics_.add("state_moves_total", 1, index_ ? "from=\"host\",to=\"disk\"" : "from=\"host\",to=\"none\"");
  }
}

void StateStore::add(StateRecord record, std::shared_ptr<const SequenceState> state) {
  const std::string id = record.id;
  if (!record.file.empty()) ++file_uses_[record.file];
  Entry& entry = entries_[id];
  entry = {std::move(record), std::move(state), {}};
  if (entry.state) {
    entry.used = used_.insert(used_.end(), id);
    host_bytes_ += entry.record.bytes;
    count_device(entry, entry.state->on_device() != nullptr);
  }
  drop_beyond_budget();
  show_sizes();
}

void StateStore::show_sizes() {
  metrics_.set("states", double(used_.size()), "tier=\"host\"");
  metrics_.set("state_bytes", double(host_bytes_), "tier=\"host\"");
  metrics_.set("states", double(on_device_), "tier=\"gpu\"");
  metrics_.set("state_bytes", double(device_bytes_), "tier=\"gpu\"");
  if (index_) metrics_.set("states", double(entries_.size()), "tier=\"disk\"");
}

std::string StateStore::keep(const std::string& owner, SequenceState state,
                             std::vector<int32_t> unread) {
  state.fixed();  // from here on the host has them: a device's own queue is the engine's
  const StateScan scan = scan_state(state);
  if (!scan.finite())
    throw Refusal(500, "state_overflow", overflow_message(*scan.not_finite, state.position - 1));
  StateRecord record;
  record.id = random_id("state_");
  record.owner = owner, record.position = state.position, record.created = std::time(nullptr);
  record.bytes = state.bytes(), record.unread = std::move(unread);
  {
    const std::lock_guard lock(mutex_);
    check_quota(owner, record.bytes);
  }
  if (index_) {
    record.file = record.id + ".state";
    save(path_of(record.file), state, std::nullopt);
  }
  const std::lock_guard lock(mutex_);
  if (index_) index_->add(line_of(record));
  const std::string id = record.id;
  add(std::move(record), std::make_shared<const SequenceState>(std::move(state)));
  return id;
}

void StateStore::keep_later(const std::string& owner, SequenceState state,
                            std::vector<int32_t> unread, Kept kept) {
  auto held = std::make_shared<SequenceState>(std::move(state));
  work_later([this, owner, held, unread = std::move(unread), kept = std::move(kept)] {
    std::string id;
    try {
      id = keep(owner, std::move(*held), unread);
    } catch (const Refusal& refusal) {
      return kept({}, &refusal);
    } catch (const std::exception& error) {  // a full disk
      const Refusal refusal(500, "state_not_kept", cat("state: cannot be kept: ", error.what()));
      return kept({}, &refusal);
    }
    kept(id, nullptr);
  });
}

void StateStore::work_later(std::function<void()> work) {
  {
    const std::lock_guard lock(queue_mutex_);
    queue_.push_back(std::move(work));
  }
  changed_.notify_all();
}

KeptState StateStore::find(const std::string& owner, const std::string& id) {
  fs::path path;
  {
    const std::lock_guard lock(mutex_);
    Entry& entry = entry_of(owner, id);
    if (entry.state) {
      used_.splice(used_.end(), used_, entry.used);
      return {entry.state, entry.record.unread};
    }
    path = path_of(entry.record.file);
  }
  if (!fs::exists(path))
    throw Refusal(404, "state_lost", "state: expected its file, found that it was taken away");
  SavedState saved = load_state(path, expectation());
  auto state = std::make_shared<const SequenceState>(std::move(saved.state));
  const std::lock_guard lock(mutex_);
  Entry& entry = entry_of(owner, id);
  if (!entry.state) {
    entry.state = state;
    entry.used = used_.insert(used_.end(), id);
    host_bytes_ += entry.record.bytes;
    metrics_.add("state_moves_total", 1, "from=\"disk\",to=\"host\"");
  }
  KeptState found{entry.state, entry.record.unread};
  drop_beyond_budget();
  show_sizes();
  return found;
}

StateRecord StateStore::describe(const std::string& owner, const std::string& id) {
  const std::lock_guard lock(mutex_);
  return entry_of(owner, id).record;
}

std::string StateStore::fork(const std::string& owner, const std::string& id) {
  const std::lock_guard lock(mutex_);
  const Entry& entry = entry_of(owner, id);
  check_quota(owner, entry.record.bytes);
  StateRecord record = entry.record;
  record.id = random_id("state_"), record.created = std::time(nullptr);
  if (index_) index_->add(line_of(record));
  const std::string copy = record.id;
  add(std::move(record), entry.state);
  return copy;
}

void StateStore::remove(const std::string& owner, const std::string& id) {
  const std::lock_guard lock(mutex_);
  Entry& entry = entry_of(owner, id);
  if (index_) index_->add({{"remove", id}});
  if (entry.state) drop_memory(entry);
  const std::string file = entry.record.file;
  entries_.erase(id);
  if (!file.empty() && --file_uses_[file] == 0) {
    file_uses_.erase(file);
    std::error_code ignored;
    fs::remove(path_of(file), ignored);
  }
  show_sizes();
}

std::string StateStore::export_file(const std::string& owner, const std::string& id) {
  const KeptState kept = find(owner, id);
  const fs::path folder = fs::temp_directory_path() / random_id("deltasane-export-");
  fs::create_directory(folder);
  fs::permissions(folder, fs::perms::owner_all);
  std::string bytes;
  try {
    std::optional<int32_t> pending;
    if (!kept.unread.empty()) pending = kept.unread.front();
    save(folder / "state", *kept.state, pending);
    bytes = read_file(folder / "state");
  } catch (...) {
    fs::remove_all(folder);
    throw;
  }
  fs::remove_all(folder);
  return bytes;
}

std::string StateStore::import_file(const std::string& owner, std::string_view bytes) {
  SavedState saved = load_state(std::as_bytes(std::span(bytes.data(), bytes.size())),
                                "request body", expectation());
  std::vector<int32_t> unread;
  if (saved.stamp.last_token) unread.push_back(*saved.stamp.last_token);
  return keep(owner, std::move(saved.state), std::move(unread));
}

std::vector<StateRecord> StateStore::list(const std::string& owner) {
  const std::lock_guard lock(mutex_);
  std::vector<StateRecord> found;
  for (const auto& [id, entry] : entries_)
    if (entry.record.owner == owner) found.push_back(entry.record);
  std::ranges::sort(found, [](const auto& a, const auto& b) { return a.created > b.created; });
  return found;
}

}  // namespace deltasane::serve
