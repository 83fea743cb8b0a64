#include "cli/sweep/sweep_run.h"

#include <fmt/format.h>

#include "base/cat.h"
#include "base/error.h"
#include "cli/own_commands.h"
#include "train/checkpoint.h"

namespace deltasane::cli {
namespace {

// Four positions, spread over a stream as those of the paper's heat maps: 4,096 tokens, a twentieth and three
// twentieths of it, and its end.
std::vector<int64_t> heat_map_positions(int64_t tokens) {
  std::vector<int64_t> positions;
  for (const int64_t position : {int64_t{4096}, tokens / 20, tokens / 20 * 3})
    if (position > (positions.empty() ? 0 : positions.back()) && position < tokens)
      positions.push_back(position);
  positions.push_back(tokens);
  return positions;
}

}  // namespace

std::string run_name(double alpha) {
  return alpha == 0 ? "baseline" : fmt::format("alpha-{:g}", alpha);
}

SweepRun::SweepRun(const SweepOptions& options, double alpha)
    : options_(options), alpha_(alpha), folder_(fs::path(options.out) / run_name(alpha)) {}

bool SweepRun::finished() const {
  if (!done("model") || (options_.asks() && !done("eval"))) return false;
  if (!options_.streams()) return true;
  if (!done("stream")) return false;
  return !options_.asks() || done("eval-after") || overflowed();
}

void SweepRun::all(const std::string& device, const fs::path& log) const {
  fs::create_directories(folder_);
  const Place place{device, log};
  once("model", place, [&] { options_.trains() ? train(place) : graft(place); });
  if (options_.asks()) once("eval", place, [&] { eval("eval", {}, place); });
  if (!options_.streams()) return;
  once("stream", place, [&] { stream(place); });
  if (overflowed()) {
    fmt::print(options_.told(), "{}: the stream overflowed before its end; not asked after it\n",
               name());
    return;
  }
  if (options_.asks())
    once("eval-after", place,
         [&] { eval("eval-after", {"--prefix-state", last_state().string()}, place); });
}

void SweepRun::once(const std::string& stage, const Place& place,
                    const std::function<void()>& body) const {
  if (done(stage)) return;
  fmt::print(options_.told(), "\n== {}: {}{}\n", name(), stage,
             place.log.empty() ? "" : fmt::format(" on {}, {}", place.device, place.log.string()));
  std::fflush(options_.told());
  body();
  replace_file(folder_ / (stage + ".done"), "");
}

void SweepRun::graft(const Place& place) const {
  if (alpha_ > 0)
    run_own({"graft", options_.model, grafted().string(), "--alpha", fmt::format("{:g}", alpha_)},
            place.log);
}

void SweepRun::train(const Place& place) const {
  std::vector<std::string> words{"train", options_.config, "--device", place.device};
  for (const std::string& one : options_.train_settings(alpha_, training()))
    words.insert(words.end(), {"--set", one});
  if (!train::checkpoints_in(training()).empty()) words.push_back("--resume");
  run_own(words, place.log);
}

void SweepRun::stream(const Place& place) const {
  std::vector<std::string> words{"stream",   model(),
                                 "--corpus", options_.corpus,
                                 "--tokens", fmt::to_string(options_.tokens),
                                 "--out",    streaming().string(),
                                 "--snapshots"};
  for (const int64_t position : heat_map_positions(options_.tokens))
    words.push_back(fmt::to_string(position));
  add_model_flags(words, place);
  if (fs::exists(streaming())) words.push_back("--resume");
  run_own(words, place.log);
}

void SweepRun::eval(const std::string& stage, const std::vector<std::string>& more,
                    const Place& place) const {
  std::vector<std::string> words{"eval",      model(),
                                 "--suite",   options_.suite,
                                 "--out",     answers(stage).string(),
                                 "--samples", fmt::to_string(options_.samples),
                                 "--limit",   fmt::to_string(options_.limit),
                                 "--tokens",  fmt::to_string(options_.answer_tokens),
                                 "--batch",   fmt::to_string(options_.batch),
                                 "--mode",    options_.mode};
  if (options_.seed) words.insert(words.end(), {"--seed", fmt::to_string(*options_.seed)});
  if (!options_.problems.empty()) words.insert(words.end(), {"--data", options_.problems});
  add_model_flags(words, place);
  words.insert(words.end(), more.begin(), more.end());
  run_own(words, place.log);
}

void SweepRun::add_model_flags(std::vector<std::string>& words, const Place& place) const {
  words.insert(words.end(), {"--device", place.device});
  if (!options_.tokenizer.empty()) words.insert(words.end(), {"--tokenizer", options_.tokenizer});
}

std::string SweepRun::model() const {
  if (options_.trains())
    return (train::checkpoints_in(training()).back() / "model.safetensors").string();
  return alpha_ == 0 ? options_.model : grafted().string();
}

fs::path SweepRun::last_state() const {
  const fs::path folder = streaming() / "snapshots";
  if (fs::exists(folder))
    for (const auto& entry : fs::directory_iterator(folder))
      if (entry.path().filename().string().find(cat("-", options_.tokens, ".")) !=
          std::string::npos)
        return entry.path();
  return {};
}

}  // namespace deltasane::cli
