#include "train/checkpoint.h"

#include <xxhash.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/io/folder.h"
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
  const uint64_t hash = XXH3_64bits(file.bytes().data(), file.bytes().size());
  std::string digits(16, '0');
  for (int i = 0; i < 16; ++i) digits[size_t(i)] = "0123456789abcdef"[hash >> (60 - 4 * i) & 15];
  return digits;
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

void expect_same_config(const fs::path& checkpoint, const TrainConfig& config) {
  const Json saved = parse_json<Json>(read_file(checkpoint / "config.json"), (checkpoint / "config.json").string());
  for (const auto& [key, value] : config.identity()) {
    const std::string before = saved.value(key, std::string());
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
  std::vector<fs::path> found;
  if (!fs::is_directory(folder)) return found;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (entry.is_directory() && name.starts_with(prefix) &&
        name.find(unfinished) == std::string::npos)
      found.push_back(entry.path());
  }
  // By the step: 100000000 comes after 99999999.
  std::ranges::sort(found, {}, [](const fs::path& path) {
    const std::string name = path.filename().string();
    return std::pair(name.size(), name);
  });
  return found;
}

fs::path save_checkpoint(const fs::path& folder, const TrainingRun& run, int64_t keep) {
  std::string number = cat(run.progress().step);
  number.insert(0, number.size() < 8 ? 8 - number.size() : 0, '0');
  const fs::path place = folder / cat(prefix, number);
  try {
    fs::create_directories(folder);
    for (const fs::directory_entry& entry : fs::directory_iterator(folder))
      if (entry.path().filename().string().find(unfinished) != std::string::npos)
        fs::remove_all(entry.path());  // of a run that was killed
    AtomicFolder part(place);
    run.model().save(part.path() / payload[0]);
    write_optimizer(part.path() / payload[1], run.optimizer());
    const Progress& p = run.progress();
    replace_file(part.path() / payload[2], Json{{"step", p.step},
                                              {"tokens", p.tokens},
                                              {"piece", p.cursor.piece},
                                              {"token", p.cursor.token}}
                                             .dump(2));
    replace_file(part.path() / payload[3], Json(run.config().identity()).dump(2));
    Json manifest{{"version", 1}, {"files", Json::object()}};
    for (const char* name : payload)
      manifest["files"][name] = {{"bytes", fs::file_size(part.path() / name)},
                                 {"xxh3", fingerprint(part.path() / name)}};
    replace_file(part.path() / "manifest.json", manifest.dump(2));
    part.commit();  // also over one of an earlier run to the same step
    const std::vector<fs::path> all = checkpoints_in(folder);
    for (size_t i = 0; i + size_t(keep) < all.size(); ++i)
      if (all[i] != place) fs::remove_all(all[i]);
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
                       std::vector<std::string>& passed_over) {
  const std::vector<fs::path> all = checkpoints_in(folder);
  for (auto place = all.rbegin(); place != all.rend(); ++place) {
    if (std::string fault = fault_of(*place); !fault.empty()) {
      passed_over.push_back(std::move(fault));
      continue;
    }
    expect_same_config(*place, run.config());
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
