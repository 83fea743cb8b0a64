#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <map>
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "model/rwkv7/checkpoint/checkpoint.h"

namespace deltasane::cli {
namespace {

struct InspectOptions {
  std::string model;
  bool json = false, tensors = false;
};

int show_model(const InspectOptions& options) {
  const Rwkv7Checkpoint checkpoint(options.model);
  const Rwkv7Shape s = checkpoint.validate();
  int64_t parameters = 0;
  std::map<std::string, int64_t> types;
  for (const std::string& name : checkpoint.names()) {
    const int64_t elements = checkpoint.shape(name).elements();
    parameters += elements;
    types[std::string(name_of(checkpoint.type(name)))] += elements;
  }
  const int64_t state_bytes = 4 * s.layers * (2 * s.channels + s.heads * s.head_size * s.head_size);
  if (options.json) {
    nlohmann::ordered_json found{
        {"path", options.model},
        {"format", checkpoint.file().format()},
        {"architecture", "rwkv7"},
        {"layers", s.layers},
        {"channels", s.channels},
        {"heads", s.heads},
        {"head_size", s.head_size},
        {"feed_forward", s.feed_forward},
        {"vocabulary", s.vocabulary},
        {"ranks", {{"w", s.rank_w}, {"a", s.rank_a}, {"v", s.rank_v}, {"g", s.rank_g}}},
        {"parameters", parameters},
        {"types", types},
        {"state_bytes", state_bytes},
        {"identity", fmt::format("{:016x}", checkpoint.identity())},
        {"metadata", checkpoint.metadata()}};
    if (checkpoint.sane())
      found["sane"] = {{"alpha", checkpoint.sane()->alpha}, {"chunk", checkpoint.sane()->chunk}};
    else
      found["sane"] = nullptr;
    fmt::print("{}\n", found.dump(2));
    return 0;
  }
  fmt::print("{}: RWKV-7, {}\n", options.model, checkpoint.file().format());
  fmt::print("  layers         {}\n  channels       {}\n", s.layers, s.channels);
  fmt::print("  heads          {} of {}\n", s.heads, s.head_size);
  fmt::print("  feed-forward   {}\n  vocabulary     {}\n", s.feed_forward, s.vocabulary);
  fmt::print("  ranks          w {}, a {}, v {}, g {}\n", s.rank_w, s.rank_a, s.rank_v, s.rank_g);
  fmt::print("  parameters     {:.1f} M\n", double(parameters) / 1e6);
  for (const auto& [type, elements] : types)
    fmt::print("    {:<12} {:.1f} M\n", type, double(elements) / 1e6);
  fmt::print("  state          {:.2f} MB, at any length\n", double(state_bytes) / 1e6);
  if (checkpoint.sane())
    fmt::print("  SANE           alpha {}, chunks of {}\n", checkpoint.sane()->alpha,
               checkpoint.sane()->chunk);
  else
    fmt::print("  SANE           none (a baseline; --sane-alpha applies it at run time)\n");
  fmt::print("  identity       {:016x}\n", checkpoint.identity());
  for (const auto& [key, value] : checkpoint.metadata())
    if (value.size() < 100) fmt::print("  {}: {}\n", key, value);
  if (options.tensors)
    for (const std::string& name : checkpoint.names())
      fmt::print("  {:<36} {:<6} {}\n", name, name_of(checkpoint.type(name)),
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
                     app.add_flag("--json", options->json, "print JSON");
                     app.footer("Example:\n  deltasane info rwkv7-g1d-0.4b.pth");
                     return [options] { return show_model(*options); };
                   }};

}  // namespace deltasane::cli
