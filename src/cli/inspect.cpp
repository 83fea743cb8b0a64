#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <map>
#include <nlohmann/json.hpp>

#include "base/io/host_memory.h"
#include "cli/command.h"
#include "cli/counted.h"
#include "cli/terminal/terminal.h"
#include "model/registry.h"

namespace deltasane::cli {
namespace {

struct InspectOptions {
  std::string model;
  bool json = false, tensors = false, metadata = false;
};

nlohmann::ordered_json json_of(const ModelDescription::Size& size) {
  if (size.values.size() == 1) return size.values[0].second;
  auto all = nlohmann::ordered_json::object();
  for (const auto& [name, value] : size.values) all[name] = value;
  return all;
}

int show_model(const InspectOptions& options) {
  // It says what is not finite, where every other command refuses it.
  const auto opened = open_checkpoint(options.model, NonFiniteWeights::allow);
  const ModelCheckpoint& checkpoint = *opened;
  const ModelDescription found = checkpoint.describe();
  const StateLayout layout = checkpoint.state_layout();
  int64_t parameters = 0;
  std::map<std::string, int64_t> types;
  for (const std::string& name : checkpoint.names()) {
    const int64_t elements = checkpoint.shape(name).elements();
    parameters += elements;
    types[std::string(name_of(checkpoint.type(name)))] += elements;
  }
  const std::optional<NonFinite> non_finite = find_non_finite(checkpoint.file());
  const int64_t state_bytes = 4 * layout.floats();
  const int64_t cache_bytes = 4 * layout.cache_floats();  // of a token
  if (options.json) {
    nlohmann::ordered_json all{{"path", options.model},
                               {"format", checkpoint.file().format()},
                               {"architecture", found.architecture},
                               {"layers", found.layers},
                               {"channels", found.channels}};
    for (const ModelDescription::Size& size : found.sizes) all[size.key] = json_of(size);
    all["vocabulary"] = found.vocabulary;
    all["parameters"] = parameters;
    all["types"] = types;
    all["state_bytes"] = state_bytes;
    if (cache_bytes) all["cache_bytes_per_token"] = cache_bytes;
    all["identity"] = fmt::format("{:016x}", checkpoint.identity());
    all["non_finite"] = nullptr;
    if (non_finite)
      all["non_finite"] = {{"tensor", non_finite->tensor},
                           {"element", non_finite->index},
                           {"count", non_finite->count},
                           {"tensors", non_finite->tensors}};
    all["metadata"] = checkpoint.metadata();
    all["sane"] = nullptr;
    if (checkpoint.sane())
      all["sane"] = {{"alpha", checkpoint.sane()->alpha}, {"chunk", checkpoint.sane()->chunk}};
    fmt::print("{}\n", json_text(all));
    return 0;
  }
  fmt::print("{}: {}, {}\n", options.model, found.title, checkpoint.file().format());
  fmt::print("  layers         {}\n  channels       {}\n", found.layers, found.channels);
  for (const ModelDescription::Size& size : found.sizes)
    if (!size.label.empty()) fmt::print("  {:<14} {}\n", size.label, size.text);
  fmt::print("  vocabulary     {}\n", found.vocabulary);
  fmt::print("  parameters     {:.1f} M\n", double(parameters) / 1e6);
  for (const auto& [type, elements] : types)
    fmt::print("    {:<12} {}\n", type,
               elements < 100'000 ? fmt::format("{:.1f} K", double(elements) / 1e3)
                                  : fmt::format("{:.1f} M", double(elements) / 1e6));
  fmt::print("  state          {:.2f} MB{}\n", double(state_bytes) / 1e6,
             cache_bytes ? fmt::format(", and {} bytes a token: {} after 100000", cache_bytes,
                                       bytes_text(uint64_t(state_bytes + 100'000 * cache_bytes)))
                         : ", at any length");
  if (checkpoint.sane())
    fmt::print("  SANE           alpha {}, chunks of {}\n", checkpoint.sane()->alpha,
               checkpoint.sane()->chunk);
  else
    fmt::print("  SANE           none (a baseline; --sane-alpha applies it at run time)\n");
  if (non_finite)
    fmt::print("  NOT FINITE     {}; other commands refuse this file\n", to_string(*non_finite));
  fmt::print("  identity       {:016x}\n", checkpoint.identity());
  const auto& metadata = checkpoint.metadata();
  if (!options.metadata && !metadata.empty())
    fmt::print("  metadata       {}, which --metadata lists\n",
               counted(int64_t(metadata.size()), "entry", "entries"));
  if (options.metadata)
    for (const auto& [key, value] : metadata)
      fmt::print("  {}: {}\n", terminal_text(key),
                 value.size() < 100 ? terminal_text(value)
                                    : fmt::format("{} (--json has it)",
                                                  counted(int64_t(value.size()), "byte")));
  if (options.tensors)
    for (const std::string& name : checkpoint.names())
      fmt::print("  {:<36} {:<6} {}\n", terminal_text(name), name_of(checkpoint.type(name)),
                 to_string(checkpoint.shape(name)));
  return 0;
}

}  // namespace

const Command info{"info", "what a model file holds", [](CLI::App& app) {
                     auto options = std::make_shared<InspectOptions>();
                     app.add_option("MODEL", options->model,
                                    ".pth, .safetensors, .gguf, rwkv.cpp .bin, or a model folder")
                         ->required();
                     app.add_flag("--tensors", options->tensors, "list every tensor");
                     app.add_flag("--metadata", options->metadata,
                                  "list what else the file says of itself");
                     app.add_flag("--json", options->json, "print JSON");
                     app.footer("Example:\n  deltasane info model.pth");
                     return [options] { return show_model(*options); };
                   }};

}  // namespace deltasane::cli
