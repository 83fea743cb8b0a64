#include "cli/sweep/sweep_check.h"

#include <fmt/format.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/json/json_text.h"
#include "base/error.h"
#include "cli/open_model.h"
#include "cli/own_commands.h"
#include "cli/sweep/sweep_run.h"
#include "corpus/source.h"
#include "eval/suite/suite.h"
#include "text/chat/chat_template.h"
#include "model/device.h"
#include "model/registry.h"
#include "tensor/cuda/gpu.h"
#include "format/tokenizer/find_tokenizer.h"
#include "train/checkpoint.h"
#include "train/training_memory.h"

namespace deltasane::cli {
namespace {

using Json = nlohmann::ordered_json;

void check_flags(const SweepOptions& o) {
  if (o.model.empty() == o.config.empty())
    fail(Fault::usage, "sweep: expected --model or --train, found ",
         o.model.empty() ? "neither" : "both");
  if (o.streams() && o.corpus.empty())
    fail(Fault::usage, "sweep: expected --corpus with --tokens, found none");
  if (!o.streams() && !o.asks() && !o.trains())
    fail(Fault::usage, "sweep: expected --suite, --tokens or --train, found nothing to do");
  if (!o.trains() && (o.steps > 0 || !o.set.empty()))
    fail(Fault::usage, "sweep: expected --train with --steps and --set, found --model");
  for (const double alpha : o.alphas)
    if (!(alpha >= 0 && alpha < 1e6))
      fail(Fault::usage, "--alphas: expected numbers from 0 (the baseline), found ", alpha);
  std::vector<std::string> names;
  for (const double alpha : o.alphas) names.push_back(run_name(alpha));
  std::ranges::sort(names);
  if (const auto twice = std::ranges::adjacent_find(names); twice != names.end())
    fail(Fault::usage, "--alphas: expected each once, found ", *twice, " twice");
  reply_mode_named(o.mode);
}

void check_devices(const std::vector<std::string>& devices) {
  std::vector<Device> seen;
  for (const std::string& name : devices) {
    const Device device = device_named(name);
    if (device.gpu && std::ranges::find(seen, device) != seen.end())
      fail(Fault::usage, "--devices: expected each once, found ", name, " twice");
    seen.push_back(device);
    if constexpr (built_with_cuda)
      if (device.gpu) const Gpu opened(*device.gpu);  // fails where there is none
  }
}

// The model that all alphas start from; none: from scratch.
std::string base_model(const SweepOptions& o, const std::optional<train::TrainConfig>& config) {
  return config ? config->model.from : o.model;
}

void check_tokenizer(SweepOptions& o, const std::optional<train::TrainConfig>& config,
                     const ModelCheckpoint* base) {
  if (o.tokenizer.empty() && config) o.tokenizer = config->corpus.tokenizer;
  if (o.tokenizer.empty() && !find_tokenizer(base->file(), base->describe().vocabulary))
    fail(Fault::file, o.model, ": expected a tokenizer inside it, or ", tokenizers_beside(o.model),
         ", found none; give one with --tokenizer FILE");
  if (const auto beside = tokenizer_file_beside(o.model); o.tokenizer.empty() && beside)
    o.tokenizer = beside->string();
  if (o.tokenizer.empty() && base->vocabulary())
    fail(Fault::usage, o.model, ": expected --tokenizer FILE, found a vocabulary inside the file, "
         "which models with SANE's parameters added do not get");
  if (o.tokenizer.empty()) return;  // bytes
  const auto tokenizer = open_vocabulary(o.tokenizer);
  const auto size = int64_t(tokenizer->vocabulary_size());
  if (base && size > base->describe().vocabulary)
    fail(Fault::usage, o.tokenizer, ": expected at most ", base->describe().vocabulary,
         " tokens, the model's vocabulary, found ", size);
  if (o.streams()) {
    const auto source = corpus::open_source(o.corpus);
    int32_t first = 0;
    corpus::TokenStream(*source, *tokenizer).read({&first, 1});
  }
}

uint64_t folder_bytes(const fs::path& folder) {
  uint64_t sum = 0;
  if (fs::exists(folder))
    for (const auto& entry : fs::recursive_directory_iterator(folder))
      if (entry.is_regular_file()) sum += entry.file_size();
  return sum;
}

int64_t parameters_of(const std::optional<train::TrainConfig>& config,
                      const ModelCheckpoint* base, int64_t vocabulary) {
  if (base) {
    int64_t sum = 0;
    for (const std::string& name : base->names()) sum += base->shape(name).elements();
    return sum;
  }
  const auto& m = config->model;
  return trainable_factory(m.architecture)
      .parameters({m.layers, m.channels, m.head_size, vocabulary, m.kind}, SaneSettings{3, m.sane_chunk});
}

// An upper bound of what the sweep writes, less what is there.
void check_disk(const SweepOptions& o, const std::optional<train::TrainConfig>& config,
                const ModelCheckpoint* base, int64_t problems) {
  int64_t vocabulary = config ? config->model.vocabulary : 0;
  if (!base && vocabulary == 0)
    vocabulary = int64_t(open_vocabulary(config->corpus.tokenizer)->vocabulary_size());
  const uint64_t models =
      config ? uint64_t(config->run.keep + 1) *
                   train::checkpoint_bytes(parameters_of(config, base, vocabulary))
             : uint64_t(fs::is_directory(o.model) ? folder_bytes(o.model) : fs::file_size(o.model));
  constexpr uint64_t records = uint64_t{64} << 20, bytes_of_token = 8;
  const uint64_t state = base ? uint64_t(base->state_layout().floats()) * sizeof(float) : 0;
  const uint64_t answers = uint64_t(problems * o.samples * o.answer_tokens) * bytes_of_token;
  const auto runs = uint64_t(o.alphas.size());
  train::BytesNeeded need{{{o.trains() ? "checkpoints" : "models", runs * models},
                           {"streams", o.streams() ? runs * (records + state) : 0},
                           {"answers", runs * answers * (o.streams() ? 2 : 1)}}};
  fs::path there = fs::absolute(o.out);
  while (!fs::exists(there)) there = there.parent_path();
  if (::access(there.c_str(), W_OK) != 0)
    fail(Fault::file, there, ": expected a folder to write to, found none; name another --out");
  const uint64_t found = fs::space(there).available, written = folder_bytes(o.out);
  if (need.total() > found + written)
    fail(Fault::file, "disk of ", there, ": expected at least ", need.text(), ", found ",
         bytes_text(found), " free; free some, lower run.keep, or name another --out");
  fmt::print(o.told(), "disk: at most {}, of {} free\n", need.text(), bytes_text(found + written));
}

// train's own checks, with SANE, which takes more: data, memory, the model.
void check_training(const SweepOptions& o) {
  const auto open = std::ranges::find_if(
      o.alphas, [&](double alpha) { return !SweepRun(o, alpha).has_model(); });
  if (open == o.alphas.end()) return;
  for (const std::string& device : o.devices) {
    std::vector<std::string> words{"train", o.config, "--check", "--device", device};
    for (const std::string& one :
         o.train_settings(std::ranges::max(o.alphas), fs::path(o.out) / "check"))
      words.insert(words.end(), {"--set", one});
    run_own(words, o.told_by_commands());
  }
}

}  // namespace

std::map<std::string, std::string> SweepOptions::settings() const {
  std::string changes, text = config.empty() ? "" : read_file(config);
  for (const std::string& one : set) changes += (changes.empty() ? "" : " ") + one;
  return {{"--model", model},
          {"--train", config},
          {"contents of --train", text.empty() ? "" : fmt::format("{:016x}", XXH3_64bits(text.data(), text.size()))},
          {"--set", changes},
          {"--steps", steps ? fmt::to_string(steps) : ""},
          {"--corpus", corpus},
          {"--tokens", tokens ? fmt::to_string(tokens) : ""},
          {"--suite", suite},
          {"--data", problems},
          {"--samples", asks() ? fmt::to_string(samples) : ""},
          {"--limit", asks() ? fmt::to_string(limit) : ""},
          {"--answer-tokens", asks() ? fmt::to_string(answer_tokens) : ""},
          {"--mode", asks() ? mode : ""},
          {"--seed", seed ? fmt::to_string(*seed) : ""},
          {"--tokenizer", tokenizer}};
}

std::vector<std::string> SweepOptions::train_settings(double alpha, const fs::path& folder) const {
  std::vector<std::string> all = set;
  if (steps > 0) all.push_back(fmt::format("optimizer.steps={}", steps));
  all.push_back(fmt::format("model.sane_alpha={:g}", alpha));
  all.push_back("run.folder='" + folder.string() + "'");
  return all;
}

void check_sweep(SweepOptions& o) {
  check_flags(o);
  check_devices(o.devices);
  std::optional<train::TrainConfig> config;
  if (o.trains()) {
    config = train::read_config(read_file(o.config), o.config, o.train_settings(1, "unused"),
                                "--set");
    open_vocabulary(config->corpus.tokenizer);
    corpus::open_source(config->corpus.source);
  }
  const std::string from = base_model(o, config);
  const auto base = from.empty() ? nullptr : open_checkpoint(from, false);
  if (base) base->describe();  // fails where it is not whole
  if (base && base->sane() && std::ranges::max(o.alphas) > 0)
    fail(Fault::usage, from, ": expected a model without SANE, to add it with each alpha, found one "
         "that was trained with alpha ", base->sane()->alpha);
  check_tokenizer(o, config, base.get());
  int64_t problems = 0;
  if (o.asks())
    for (const eval::Benchmark& one :
         eval::open_suite(o.suite, {.folder = o.problems, .limit = o.limit}))
      problems += int64_t(one.problems.size());
  check_disk(o, config, base.get(), problems);
  if (o.trains()) check_training(o);
}

void claim_sweep_folder(const SweepOptions& options) {
  const fs::path path = fs::path(options.out) / "sweep.json";
  fs::create_directories(options.out);
  const auto settings = options.settings();
  if (fs::exists(path)) {
    const Json before = parse_json<Json>(read_file(path));
    if (!before.is_object()) fail(Fault::file, path, ": expected settings as JSON, found something else");
    for (const auto& [flag, value] : settings) {
      const std::string was = before.value(flag, std::string());
      if (!was.empty() && was != value)
        fail(Fault::usage, flag, ": ", path, " was made with '", was,
             "'; expected the same to continue, found '", value, "'; name another --out");
    }
  }
  replace_file(path, Json(settings).dump(2) + "\n");
}

}  // namespace deltasane::cli
