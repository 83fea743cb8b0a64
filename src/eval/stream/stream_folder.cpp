#include "eval/stream/stream_folder.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/hexadecimal.h"
#include "base/io/seal.h"
#include "base/io/temporary_file.h"
#include "base/json/array_at.h"
#include "base/json/json_text.h"
#include "base/printable.h"
#include "eval/stream/record_columns.h"
#include "infer/state_file.h"

namespace deltasane {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* checkpoint_file = "checkpoint.json";
constexpr const char* states_folder = "checkpoint";
// Version 1 belongs to runs from before losses.rec, 1 and 2 to those from before the checksum.
constexpr int checkpoint_version = 3, last_without_seal = 2, version_without_losses = 1;

constexpr const char* head_rate_setting = "heads_every";  // of heads.rec; not in older runs

void expect_same(const fs::path& path, const probe::Settings& found,
                 const probe::Settings& expected) {
  if (found == expected) return;
  for (size_t i = 0; i < std::min(found.size(), expected.size()); ++i)
    if (found[i] != expected[i])
      fail(Fault::file, path, ": ", found[i].first, ": expected ",
           printable(setting_text(expected[i])), ", found ", printable(setting_text(found[i])),
           "; the folder belongs to another run: give the same settings, or another output folder");
  fail(Fault::file, path, ": expected ", expected.size(), " settings, found ", found.size(),
       "; the folder belongs to another run: give another output folder");
}

// The size of a record file at a checkpoint is one at which a group of rows ends.
void expect_group_end(const fs::path& path, uint64_t bytes) {
  const MappedFile file(path);
  if (bytes > file.bytes().size()) return;  // said with more detail by the caller
  const probe::RecordTable cut = probe::read_records(file.bytes().first(bytes), path.string());
  if (cut.intact_bytes != bytes && cut.damage.find("checksum") == std::string::npos)
    fail(Fault::file, path, ": expected rows that end at byte ", bytes,
         ", as the checkpoint says, found ", cut.damage);
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

// The file without its checksum. One of a version that had none is read where the user says so.
Json parsed_checkpoint(const fs::path& path, OnExisting existing) {
  const std::string text = read_file(path);
  const Json unchecked = parse_json<Json>(text);
  const Json version = unchecked.is_object() ? unchecked.value("version", Json()) : Json();
  const bool without_seal = !has_seal(text) && version.is_number_integer() &&
                            version >= Json(version_without_losses) &&
                            version <= Json(last_without_seal);
  if (without_seal && existing == OnExisting::resume_unverified) return unchecked;
  if (without_seal)
    fail(Fault::file, path, ": expected a checkpoint with a checksum (version ",
         checkpoint_version, "), found one of version ", version.dump(),
         ", in which damage cannot be seen; begin again with another output folder, or allow an "
         "unverified resume");
  const Json json = parse_json<Json>(unsealed(text, path.string()), path.string());
  if (json.at("version") != Json(checkpoint_version))
    fail(Fault::file, path, ": expected version ", checkpoint_version, ", found ",
         json.at("version").dump());
  return json;
}

fs::path state_path(const fs::path& folder, int64_t position, int64_t stream) {
  return folder / states_folder / cat("stream-", stream, "-position-", position, ".state");
}

// Of the last checkpoint; -1 before the first.
int64_t checkpoint_position(const fs::path& folder) {
  if (!fs::exists(folder / checkpoint_file)) return -1;
  return parse_json<Json>(read_file(folder / checkpoint_file), checkpoint_file)
      .at("position")
      .get<int64_t>();
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

std::string setting_text(const probe::Settings::value_type& setting) {
  const auto& [name, value] = setting;
  uint64_t identity = 0;
  const char* const end = value.data() + value.size();
  const auto [at, error] = std::from_chars(value.data(), end, identity);
  const bool is_identity = name == "model_identity" && error == std::errc() && at == end;
  return is_identity ? hexadecimal(identity) : value;
}

StreamFolder::StreamFolder(const fs::path& folder, const probe::Settings& settings,
                           HeadRate head_rate, const StreamParts& parts, int64_t streams,
                           OnExisting existing)
    : folder_(folder),
      settings_(settings),
      head_rate_(head_rate),
      model_(parts.model),
      model_name_(parts.model_name),
      streams_(streams),
      existing_(existing),
      files_{{"corpus", hexadecimal(content_digest(parts.source))},
             {"tokenizer", hexadecimal(parts.tokenizer.digest())}},
      identity_(parts.model.identity()),
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
      if (!is_temporary_name(entry.path().filename().string()) &&
          entry.path().filename() != states_folder && entry.path().filename() != snapshots_folder)
        fail(Fault::file, folder, ": expected an empty folder or a run, found ",
             entry.path().filename(), "; give another output folder");
  }
  fs::create_directories(folder / snapshots_folder);
  fs::create_directories(folder / states_folder);
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
    const Json json = parsed_checkpoint(path, existing_);
    has_losses_ = json.at("record_bytes").size() > 3;
    checkpoint.position = json.at("position").get<int64_t>();
    bytes_ = json.at("record_bytes").get<std::vector<uint64_t>>();
    for (const Json& place : json.at("streams")) checkpoint.places.push_back(place_of(place));
    if (existing_ != OnExisting::resume_unverified)
      expect_same_files(json.at("files").get<std::map<std::string, std::string>>());
  } catch (const nlohmann::json::exception& error) {
    fail(Fault::file, path, ": expected a checkpoint, found: ", error.what());
  }
  if (bytes_.size() != files().size() || int64_t(checkpoint.places.size()) != streams_)
    fail(Fault::file, path, ": expected the sizes of ", files().size(), " files and ", streams_,
         " streams, found ", bytes_.size(), " and ", checkpoint.places.size());
  for (size_t i = 0; i < checkpoint.places.size(); ++i)
    checkpoint.states.push_back(
        load_state(state_path(folder_, checkpoint.position, int64_t(i)),
                   {identity_, model_name_, model_.state_layout(), model_.sane()})
            .state);
  check(checkpoint);
  return checkpoint;
}

void StreamFolder::expect_same_files(const std::map<std::string, std::string>& before) const {
  for (const auto& [name, digest] : files_) {
    const auto at = before.find(name);
    if (at == before.end() || at->second != digest)
      fail(Fault::file, folder_, ": ", name, ": expected the content it began with (digest ",
           at == before.end() ? "unknown" : at->second, "), found other content (", digest,
           "); give the same files, or allow an unverified resume");
  }
}

// Everything that a run trusts: a checksum protects from accidents only.
void StreamFolder::check(const Checkpoint& checkpoint) const {
  for (size_t i = 0; i < checkpoint.places.size(); ++i)
    check(checkpoint.places[i], checkpoint.states[i], checkpoint.position);
}

void StreamFolder::check(const StreamPlace& place, const SequenceState& state,
                         int64_t position) const {
  const auto expect = [&](bool holds, std::string_view what, const auto& wanted,
                          const auto& found) {
    if (!holds)
      fail(Fault::file, folder_ / checkpoint_file, ": ", what, ": expected ", wanted, ", found ",
           found);
  };
  const auto heads = int64_t(model_.state_layout()->heads().size());
  const int64_t end = place.overflow ? place.overflow->position : position;
  expect(position >= 0 && end >= 0 && end <= position, "position", cat("0 to ", position), end);
  expect(state.position == end, "position", cat("that of the state, ", state.position), end);
  expect(place.tokens == end, "tokens", end, place.tokens);
  expect(std::isfinite(place.loss) && place.loss >= 0, "loss", "a finite number from 0",
         place.loss);
  expect(place.pending >= 0 && place.pending < model_.vocabulary(), "pending",
         cat("a token below ", model_.vocabulary()), place.pending);
  if (place.overflow) {
    const StreamOverflow& o = *place.overflow;
    expect(o.stream >= 0 && o.stream < streams_, "overflow.stream", cat("0 to ", streams_ - 1),
           o.stream);
    const bool known = std::ranges::any_of(model_.state_layout()->heads(), [&](const auto& head) {
      return head.layer == o.layer && head.head == o.head;
    });
    expect(known, "overflow", "a head of the model", cat("layer ", o.layer, ", head ", o.head));
  }
  const std::vector<float>& alphas = place.alphas;
  const std::vector<double>& references = place.adaptive.references;
  const bool adaptive = std::ranges::any_of(
      settings_, [](const auto& setting) { return setting.first == "sane_adaptive"; });
  const int64_t wanted = adaptive && (end >= AdaptiveSane::every || !alphas.empty()) ? heads : 0;
  expect(int64_t(alphas.size()) == wanted, "adaptive.alphas", cat(wanted, " numbers"),
         alphas.size());
  expect(references.size() == alphas.size(), "adaptive.references", cat(alphas.size(), " numbers"),
         references.size());
  for (const float alpha : alphas)
    expect(std::isfinite(alpha) && alpha > 0 && double(alpha) <= double(float(model_.sane().alpha)),
           "adaptive.alphas", cat("numbers above 0, up to ", model_.sane().alpha), alpha);
  for (const double reference : references)
    expect(std::isfinite(reference) && reference >= 0, "adaptive.references",
           "finite numbers from 0", reference);
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
    expect_group_end(path, bytes_[i]);
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
  const int64_t position = checkpoint_position(folder_);
  for (const fs::path& place : {folder_, folder_ / states_folder, folder_ / snapshots_folder})
    remove_abandoned(place);
  std::error_code problem, ignored;  // what stays is removed the next time
  for (fs::directory_iterator entry(folder_ / states_folder, problem), end;
       !problem && entry != end; entry.increment(problem))
    if (const auto state = snapshot_named(entry->path()); state && state->position != position)
      fs::remove(entry->path(), ignored);
}

void StreamFolder::save(const Checkpoint& checkpoint) {
  std::vector<uint64_t> bytes;
  for (const File& file : files()) {
    (*file.writer)->flush();
    bytes.push_back((*file.writer)->bytes());
  }
  for (size_t i = 0; i < checkpoint.states.size(); ++i)
    save_state(state_path(folder_, checkpoint.position, int64_t(i)), checkpoint.states[i],
               stamp(checkpoint.places[i].pending));
  Json json{{"version", checkpoint_version},
            {"position", checkpoint.position},
            {"files", files_},
            {"record_bytes", bytes}};
  for (const StreamPlace& place : checkpoint.places)
    array_at(json, "streams").push_back(json_of(place));
  replace_file(folder_ / checkpoint_file, sealed(json.dump(2) + "\n"));
  remove_leftovers();
}

void StreamFolder::save_snapshot(int64_t stream, const SequenceState& state,
                                 int32_t pending) const {
  save_state(
      folder_ / snapshots_folder / cat("stream-", stream, "-position-", state.position, ".state"),
      state, stamp(pending));
}

fs::path checkpoint_state(const fs::path& folder, int64_t stream) {
  return state_path(folder, checkpoint_position(folder), stream);
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
