#include "eval/stream/stream_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json/json_text.h"
#include "base/printable.h"
#include "eval/stream/record_columns.h"
#include "infer/state_file.h"

namespace deltasane {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* checkpoint_file = "checkpoint.json";
constexpr const char* states_folder = "checkpoint";
// Version 1 belongs to runs from before losses.rec.
constexpr int checkpoint_version = 2, version_without_losses = 1;

constexpr const char* head_rate_setting = "heads_every";  // of heads.rec; not in older runs

void expect_same(const fs::path& path, const probe::Settings& found,
                 const probe::Settings& expected) {
  if (found == expected) return;
  for (size_t i = 0; i < std::min(found.size(), expected.size()); ++i)
    if (found[i] != expected[i])
      fail(Fault::file, path, ": ", found[i].first, ": expected ", printable(expected[i].second),
           ", found ", printable(found[i].second),
           "; the folder belongs to another run: give the same settings, or another output folder");
  fail(Fault::file, path, ": expected ", expected.size(), " settings, found ", found.size(),
       "; the folder belongs to another run: give another output folder");
}

Json json_of(const StreamPlace& place) {
  Json json{{"piece", place.cursor.piece},
            {"token", place.cursor.token},
            {"pending", place.pending},
            {"tokens", place.tokens},
            {"loss", place.loss}};
  if (place.overflow)
    json["overflow"] = {{"stream", place.overflow->stream},
                        {"position", place.overflow->position},
                        {"layer", place.overflow->layer},
                        {"head", place.overflow->head},
                        {"largest", place.overflow->largest}};
  if (!place.alphas.empty())
    json["adaptive"] = {{"references", place.adaptive.references}, {"alphas", place.alphas}};
  return json;
}

StreamPlace place_of(const Json& json) {
  StreamPlace place;
  place.cursor = {json.at("piece").get<uint64_t>(), json.at("token").get<uint64_t>()};
  place.pending = json.at("pending").get<int32_t>();
  place.tokens = json.at("tokens").get<int64_t>();
  place.loss = json.at("loss").get<double>();
  if (json.contains("overflow")) {
    const Json& o = json.at("overflow");
    place.overflow = StreamOverflow{o.at("stream").get<int64_t>(), o.at("position").get<int64_t>(),
                                    o.at("layer").get<int64_t>(), o.at("head").get<int64_t>(),
                                    o.at("largest").get<double>()};
  }
  if (json.contains("adaptive")) {
    place.adaptive.references = json["adaptive"].at("references").get<std::vector<double>>();
    place.alphas = json["adaptive"].at("alphas").get<std::vector<float>>();
  }
  return place;
}

}  // namespace

FolderLock::FolderLock(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (!fs::is_directory(folder))
    fail(Fault::file, folder, ": cannot create the folder: ", error.message());
  descriptor_ = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor_ >= 0 && ::flock(descriptor_, LOCK_EX | LOCK_NB) == 0) return;
  ::close(descriptor_);
  fail(Fault::file, folder, ": another process writes to this folder: wait for it to end");
}

FolderLock::~FolderLock() { ::close(descriptor_); }

StreamFolder::StreamFolder(const fs::path& folder, const probe::Settings& settings,
                           HeadRate head_rate, const LanguageModel& model,
                           const std::string& model_name, OnExisting existing)
    : folder_(folder),
      settings_(settings),
      head_rate_(head_rate),
      model_(model),
      model_name_(model_name),
      identity_(model.identity()),
      lock_(folder) {
  const fs::path records = folder / segments_file;
  if (fs::exists(records)) {
    if (existing == OnExisting::refuse)
      fail(Fault::file, folder,
           ": expected a folder without a run, found one: continue it (resume), or give "
           "another output folder");
    expect_same(records, probe::read_records(records).header.settings, settings);
  } else if (!fs::exists(folder / checkpoint_file)) {
    for (const auto& entry : fs::directory_iterator(folder))
      if (entry.path().filename().string().find(".tmp-") == std::string::npos &&
          entry.path().filename() != states_folder && entry.path().filename() != snapshots_folder)
        fail(Fault::file, folder, ": expected an empty folder or a run, found ",
             entry.path().filename(), "; give another output folder");
  }
  fs::create_directories(folder / snapshots_folder);
  fs::create_directories(folder / states_folder);
}

fs::path StreamFolder::state_path(int64_t position, int64_t stream) const {
  return folder_ / states_folder / cat("stream-", stream, "-position-", position, ".state");
}

StateStamp StreamFolder::stamp(int32_t pending) const {
  StateStamp stamp;
  stamp.model_identity = identity_;
  stamp.model_name = model_name_;
  stamp.sane = model_.sane();
  stamp.last_token = pending;
  stamp.creator = "deltasane stream";
  return stamp;
}

std::optional<Checkpoint> StreamFolder::read_checkpoint() {
  const fs::path path = folder_ / checkpoint_file;
  if (!fs::exists(path)) return std::nullopt;
  Checkpoint checkpoint;
  try {
    const Json json = parse_json<Json>(read_file(path), path.string());
    const Json& version = json.at("version");
    if (version != checkpoint_version && version != version_without_losses)
      fail(Fault::file, path, ": expected version ", version_without_losses, " or ",
           checkpoint_version, ", found ", version.dump());
    has_losses_ = version == checkpoint_version;
    checkpoint.position = json.at("position").get<int64_t>();
    bytes_ = json.at("record_bytes").get<std::vector<uint64_t>>();
    for (const Json& place : json.at("streams")) checkpoint.places.push_back(place_of(place));
    if (bytes_.size() != files().size() || checkpoint.places.empty())
      fail(Fault::file, path, ": expected the sizes of ", files().size(),
           " files and a stream, found ", bytes_.size(), " and ", checkpoint.places.size());
  } catch (const nlohmann::json::exception& error) {
    fail(Fault::file, path, ": expected a checkpoint, found: ", error.what());
  }
  for (size_t i = 0; i < checkpoint.places.size(); ++i)
    checkpoint.states.push_back(
        load_state(state_path(checkpoint.position, int64_t(i)),
                   {identity_, model_name_, model_.state_layout(), model_.sane()})
            .state);
  return checkpoint;
}

std::vector<StreamFolder::File> StreamFolder::files() {
  probe::Settings with_rate = settings_;
  with_rate.emplace_back(head_rate_setting, head_rate_.description());
  std::vector<File> all{{segments_file, {"segments", segments_columns(), settings_}, &segments_},
                        {heads_file, {"heads", heads_columns(), with_rate}, &heads_},
                        {probes_file, {"probes", probes_columns(), settings_}, &probes_}};
  if (has_losses_) all.push_back({losses_file, {"losses", losses_columns(), settings_}, &losses_});
  return all;
}

std::optional<Checkpoint> StreamFolder::begin() {
  std::optional<Checkpoint> checkpoint = read_checkpoint();
  remove_leftovers();
  const std::vector<File> all = files();
  for (size_t i = 0; i < all.size(); ++i) {
    const fs::path path = folder_ / all[i].name;
    if (!checkpoint) {
      *all[i].writer = std::make_unique<probe::RecordWriter>(path, all[i].header);
      continue;
    }
    const probe::RecordTable table = probe::read_records(path);
    const bool is_older =
        all[i].name == std::string(heads_file) && !table.has_setting(head_rate_setting);
    expect_same(path, table.header.settings, is_older ? settings_ : all[i].header.settings);
    if (is_older) continue_every_segment(path);
    if (table.intact_bytes < bytes_[i])
      fail(Fault::file, path, ": expected ", bytes_[i], " intact bytes at the checkpoint, found ",
           table.intact_bytes, table.damage.empty() ? "" : " (", table.damage,
           table.damage.empty() ? "" : ")",
           "; the records are damaged: `deltasane records` exports what is intact; begin again "
           "with another output folder");
    // With the columns that the file has, which may be fewer in an older one.
    *all[i].writer = std::make_unique<probe::RecordWriter>(path, table.header, bytes_[i]);
  }
  return checkpoint;
}

// Runs from before the rate could be chosen have rows of heads at every segment.
void StreamFolder::continue_every_segment(const fs::path& path) {
  const auto segment = std::ranges::find(settings_, "segment", &probe::Settings::value_type::first);
  const HeadRate older{std::stoll(segment->second)};
  if (head_rate_.every != 0 && head_rate_.every != older.every)
    fail(Fault::file, path, ": ", head_rate_setting, ": expected ", head_rate_.description(),
         ", found every segment, ", older.description(),
         "; give the same, or another output folder");
  head_rate_ = older;
}

// States of checkpoints that were replaced or never completed, and parts of files.
void StreamFolder::remove_leftovers() const {
  std::string current;
  if (fs::exists(folder_ / checkpoint_file)) current = read_file(folder_ / checkpoint_file);
  const int64_t position =
      current.empty() ? -1 : parse_json<Json>(current, checkpoint_file).at("position").get<int64_t>();
  for (const fs::path& place : {folder_, folder_ / states_folder, folder_ / snapshots_folder})
    for (const auto& entry : fs::directory_iterator(place)) {
      const std::string name = entry.path().filename().string();
      const auto state = snapshot_named(entry.path());
      const bool replaced =
          place.filename() == states_folder && state && state->position != position;
      if (replaced || name.find(".tmp-") != std::string::npos) fs::remove(entry.path());
    }
}

void StreamFolder::save(const Checkpoint& checkpoint) {
  std::vector<uint64_t> bytes;
  for (const File& file : files()) {
    (*file.writer)->flush();
    bytes.push_back((*file.writer)->bytes());
  }
  for (size_t i = 0; i < checkpoint.states.size(); ++i)
    save_state(state_path(checkpoint.position, int64_t(i)), checkpoint.states[i],
               stamp(checkpoint.places[i].pending));
  Json json{{"version", has_losses_ ? checkpoint_version : version_without_losses},
            {"position", checkpoint.position},
            {"record_bytes", bytes}};
  for (const StreamPlace& place : checkpoint.places) json["streams"].push_back(json_of(place));
  replace_file(folder_ / checkpoint_file, json.dump(2) + "\n");
  remove_leftovers();
}

void StreamFolder::save_snapshot(int64_t stream, const SequenceState& state,
                                 int32_t pending) const {
  save_state(
      folder_ / snapshots_folder / cat("stream-", stream, "-position-", state.position, ".state"),
      state, stamp(pending));
}

std::optional<SnapshotName> snapshot_named(const fs::path& path) {
  const std::string name = path.filename().string();
  constexpr std::string_view first = "stream-", second = "-position-", last = ".state";
  const size_t middle = name.find(second);
  if (!name.starts_with(first) || !name.ends_with(last) || middle == std::string::npos)
    return std::nullopt;
  SnapshotName found{};
  const auto number = [&](size_t from, size_t to, int64_t& value) {
    const auto [end, error] = std::from_chars(name.data() + from, name.data() + to, value);
    return error == std::errc() && end == name.data() + to;
  };
  if (!number(first.size(), middle, found.stream) ||
      !number(middle + second.size(), name.size() - last.size(), found.position))
    return std::nullopt;
  return found;
}

}  // namespace deltasane
