#include "train/checkpoint.h"

#include <xxhash.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/hexadecimal.h"
#include "base/io/folder.h"
#include "base/io/temporary_file.h"
#include "base/json/json_text.h"
#include "format/safetensors/safetensors.h"

namespace deltasane::train {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* payload[] = {"model.safetensors", "optimizer.safetensors", "progress.json",
                                   "config.json"};
constexpr std::string_view prefix = "step_", unfinished = AtomicFolder::unfinished;

std::string fingerprint(const fs::path& path) {
  const MappedFile file(path);
  return hexadecimal(XXH3_64bits(file.bytes().data(), file.bytes().size()));
}

void write_optimizer(const fs::path& path, const Optimizer& optimizer) {
  const Shape shape{optimizer.first.elements()};
  write_safetensors(path, {{"first", StoredType::f32, shape}, {"second", StoredType::f32, shape}},
                    {{"content", "optimizer"}}, [&](const PlannedTensor& tensor, const Sink& sink) {
                      const auto& state =
                          tensor.name == "first" ? optimizer.first : optimizer.second;
                      sink(std::as_bytes(state.span()));
                    });
}

// What is wrong with a checkpoint; nothing if it is whole.
std::string fault_of(const fs::path& checkpoint) {
  const fs::path path = checkpoint / "manifest.json";
  if (!fs::exists(path)) return cat(path, ": expected a manifest, found no file");
  const Json manifest = parse_json<Json>(read_file(path));
  if (!manifest.is_object() || manifest.value(Json::json_pointer("/version"), Json()) != Json(1))
    return cat(path, ": expected a manifest of version 1, found something else");
  for (const char* name : payload) {
    const Json entry = manifest.value(Json::json_pointer("/files/" + std::string(name)), Json());
    if (!entry.is_object() || !entry.contains("bytes") || !entry.contains("xxh3"))
      return cat(path, ": expected size and checksum of ", name, ", found none");
    const fs::path file = checkpoint / name;
    const Json bytes = fs::exists(file) ? Json(fs::file_size(file)) : Json("no file");
    if (bytes != entry["bytes"])
      return cat(file, ": expected ", entry["bytes"].dump(), " bytes, found ", bytes.dump());
    if (const Json found = fingerprint(file); found != entry["xxh3"])
      return cat(file, ": expected the checksum ", entry["xxh3"].dump(), ", found ", found.dump());
  }
  return {};
}

// A folder under a name that nobody takes for a checkpoint, and then its files: a kill in between
// leaves no checkpoint without some of them.
void remove_checkpoint(const fs::path& checkpoint) {
  const fs::path leaving = checkpoint.string() + cat(unfinished, "removed");
  fs::remove_all(leaving);
  fs::rename(checkpoint, leaving);
  fs::remove_all(leaving);
}

// The number in a checkpoint's name; none for other names.
std::optional<uint64_t> step_named(const std::string& name) {
  uint64_t step = 0;
  const char* const end = name.data() + name.size();
  if (!name.starts_with(prefix)) return std::nullopt;
  const auto read = std::from_chars(name.data() + prefix.size(), end, step);
  return read.ec == std::errc() && read.ptr == end ? std::optional(step) : std::nullopt;
}

void expect_same_content(const fs::path& checkpoint, const TrainingRun& run) {
  const Json saved = parse_json<Json>(read_file(checkpoint / "config.json"), (checkpoint / "config.json").string());
  const Json before = saved.value("content", Json::object());
  for (const auto& [key, digest] : run.content())
    if (before.contains(key) && before[key] != Json(digest))  // absent: an older version saved it
      fail(Fault::usage, key, ": ", checkpoint, " was made with content of the digest ",
           before[key].dump(), "; expected the same files to resume, found ", digest,
           "; give the files it began with, or allow changed files");
}

void expect_same_config(const fs::path& checkpoint, const TrainConfig& config) {
  const Json saved = parse_json<Json>(read_file(checkpoint / "config.json"), (checkpoint / "config.json").string());
  for (const auto& [key, value] : config.identity()) {
    const std::string before = saved.contains(key) && saved[key].is_string()
                                   ? saved[key].get<std::string>()
                                   : std::string();
    if (before != value)
      fail(Fault::usage, key, ": ", checkpoint, " was made with '", before,
           "'; expected the same to resume, found '", value, "'");
  }
}

Tensor<float> state_named(const TensorFile& file, const char* name, int64_t elements) {
  const StoredTensor* tensor = file.find(name);
  if (!tensor || tensor->shape != Shape{elements})
    fail(Fault::file, file.path(), ": expected ", name, " of ", elements, " numbers, found ",
         tensor ? to_string(tensor->shape) : "none");
  return file.read(*tensor);
}

}  // namespace

uint64_t checkpoint_bytes(int64_t parameters) {
  constexpr uint64_t headers = 1 << 20;  // names, settings, padding of the layout
  return 3 * sizeof(float) * uint64_t(parameters) + headers;
}

std::vector<fs::path> checkpoints_in(const fs::path& folder) {
  std::vector<std::pair<uint64_t, fs::path>> found;
  std::error_code problem, ignored;
  for (fs::directory_iterator entry(folder, problem), end; !problem && entry != end;
       entry.increment(problem))
    if (const auto step = step_named(entry->path().filename().string());
        step && entry->is_directory(ignored))
      found.emplace_back(*step, entry->path());
  if (problem && problem != std::errc::no_such_file_or_directory)
    fail(Fault::file, folder, ": cannot list the checkpoints: ", problem.message());
  std::ranges::sort(found);
  std::vector<fs::path> paths;
  for (auto& [step, path] : found) paths.push_back(std::move(path));
  return paths;
}

void expect_no_checkpoints(const fs::path& folder, std::string_view resume) {
  if (!checkpoints_in(folder).empty())
    fail(Fault::usage, folder,
         ": expected no checkpoints at the start of a run, found some; resume from them with ",
         resume, ", or name another run.folder");
}

void remove_unfinished(const fs::path& folder) {
  std::error_code problem, ignored;
  for (fs::directory_iterator entry(folder, problem), end; !problem && entry != end;
       entry.increment(problem))
    if (entry->path().filename().string().find(unfinished) != std::string::npos)
      fs::remove_all(entry->path(), ignored);
  remove_abandoned(folder);
}

fs::path save_checkpoint(const fs::path& folder, const TrainingRun& run, int64_t keep) {
  std::string number = cat(run.progress().step);
  number.insert(0, number.size() < 8 ? 8 - number.size() : 0, '0');
  const fs::path place = folder / cat(prefix, number);
  try {
    create_folder(folder);
    remove_unfinished(folder);
    AtomicFolder part(place);
    run.model().save(part.path() / payload[0]);
    write_optimizer(part.path() / payload[1], run.optimizer());
    const Progress& p = run.progress();
    replace_file(part.path() / payload[2], Json{{"step", p.step},
                                              {"tokens", p.tokens},
                                              {"piece", p.cursor.piece},
                                              {"token", p.cursor.token}}
                                             .dump(2));
    Json config(run.config().identity());
    config["content"] = run.content();
    replace_file(part.path() / payload[3], config.dump(2));
    Json manifest{{"version", 1}, {"files", Json::object()}};
    for (const char* name : payload)
      manifest["files"][name] = {{"bytes", fs::file_size(part.path() / name)},
                                 {"xxh3", fingerprint(part.path() / name)}};
    replace_file(part.path() / "manifest.json", manifest.dump(2));
    part.commit();  // in place of a damaged one of the same step, where there is one
    const std::vector<fs::path> all = checkpoints_in(folder);
    for (size_t i = 0; i + size_t(keep) < all.size(); ++i)
      if (all[i] != place) remove_checkpoint(all[i]);
  } catch (const fs::filesystem_error& error) {
    fail(Fault::file, place, ": expected to save a checkpoint, found: ", error.code().message());
  }
  return place;
}

void take_settings_of_newest(const fs::path& folder, TrainConfig& config) {
  const std::vector<fs::path> all = checkpoints_in(folder);
  if (all.empty() || !fs::exists(all.back() / payload[3])) return;
  const Json saved = parse_json<Json>(read_file(all.back() / payload[3]));
  if (!saved.is_object()) return;  // resume_newest says what is wrong with it
  const auto take = [&](const char* key, double& value) {
    if (config.unstated.contains(key) && saved.contains(key))
      value = std::stod(saved[key].get<std::string>());
  };
  take("optimizer.beta2", config.optimizer.beta2);
  take("optimizer.epsilon", config.optimizer.epsilon);
  // Older versions padded on the right, and did not say so.
  if (config.unstated.contains("corpus.padding_side") && !saved.contains("corpus.padding_side"))
    config.corpus.padding_side = PaddingSide::right;
}

fs::path resume_newest(const fs::path& folder, TrainingRun& run,
                       std::vector<std::string>& passed_over, ChangedFiles changed) {
  const std::vector<fs::path> all = checkpoints_in(folder);
  for (auto place = all.rbegin(); place != all.rend(); ++place) {
    if (std::string fault = fault_of(*place); !fault.empty()) {
      passed_over.push_back(std::move(fault));
      continue;
    }
    expect_same_config(*place, run.config());
    if (changed == ChangedFiles::refuse) expect_same_content(*place, run);
    const TensorFile state = open_safetensors(*place / payload[1]);
    const Json p = parse_json<Json>(read_file(*place / payload[2]), (*place / payload[2]).string());
    const int64_t elements = run.layout().elements();
    run.restore(run.factory().restore(*place / payload[0]), state_named(state, "first", elements),
                state_named(state, "second", elements),
                {p.at("step"), p.at("tokens"), {p.at("piece"), p.at("token")}});
    return *place;
  }
  fail(Fault::file, folder, ": expected a checkpoint to resume from, found ",
       all.empty() ? "none" : "none that is whole",
       passed_over.empty() ? "" : cat("; ", passed_over.front()));
}

}  // namespace deltasane::train
