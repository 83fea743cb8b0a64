#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/json/array_at.h"
#include "cli/command.h"
#include "cli/counted.h"
#include "cli/number_range.h"
#include "cli/terminal/terminal.h"
#include "eval/stream/stream_folder.h"
#include "infer/state_file.h"
#include "kernel/sane/tau.h"
#include "model/sane.h"
#include "probe/diagnosis.h"

namespace deltasane::cli {
namespace {

struct DiagnoseOptions {
  std::string path;
  int64_t most = 20;
  bool json = false;
};

// A diagnosis and what it is of.
struct Patient {
  probe::Diagnosis diagnosis;
  std::string model, sane;
  int64_t streams = 1;
};

Patient from_folder(const fs::path& folder) {
  if (!fs::exists(folder / segments_file))
    fail(Fault::file, folder,
         ": expected a folder of `deltasane stream`, or a state file, found no ", segments_file);
  const probe::RecordTable segments = probe::read_records(folder / segments_file);
  const probe::RecordTable heads = probe::read_records(folder / heads_file);
  for (const probe::RecordTable* table : {&segments, &heads})
    if (!table->damage.empty())
      fmt::print(stderr, "{}; going by the {} rows before it\n", table->damage, table->rows);
  return {probe::diagnose(segments, heads), segments.setting("model"), segments.setting("sane"),
          segments.count_setting("streams")};
}

Patient from_state(const fs::path& path) {
  const MappedFile file(path);
  const SavedState saved = read_state(file.bytes(), path.string());
  ThreadPool threads;
  return {probe::diagnose(saved.state.layout(), saved.state.position,
                          probe::statistics_of(saved.state, nullptr, threads)),
          saved.stamp.model_name, to_string(saved.stamp.sane), 1};
}

nlohmann::ordered_json json_of(const probe::HeadDiagnosis& head) {
  nlohmann::ordered_json json{{"stream", head.stream},
                              {"layer", head.layer},
                              {"head", head.head},
                              {"anomalous", head.anomalous()},
                              {"norm", head.norm},
                              {"largest", head.largest},
                              {"median", head.median},
                              {"q9999", head.q9999},
                              {"share_of_squares", head.share_of_squares},
                              {"growth", probe::name_of(head.growth.law)},
                              {"rate_per_token", head.growth.rate},
                              {"doubling_tokens", head.growth.doubling},
                              {"misfit", head.growth.misfit}};
  if (head.hot_since) json["hot_since"] = *head.hot_since;
  return json;
}

// Tokens since SANE acted on the state; none without SANE.
std::optional<int64_t> tokens_into_chunk(const Patient& patient) {
  const std::optional<int64_t> chunk = chunk_in(patient.sane);
  if (!chunk || *chunk <= 0) return std::nullopt;
  return patient.diagnosis.position % *chunk;
}

// One record shows no growth, and inside a chunk max |S| may be above tau in a healthy model. So with
// SANE it tells an illness only where a number is not finite.
bool needs_alpha(const Patient& patient) {
  const probe::Diagnosis& found = patient.diagnosis;
  if (found.alpha == 0) return false;
  return found.records > 1 || !alpha_in(patient.sane) || !found.breaks.empty() ||
         !std::isfinite(found.background.largest);
}

// What the next command takes: --sane-alpha is for models that were trained without SANE. Half of
// what is in use, where that is small already.
std::optional<double> suggested_alpha(const Patient& patient) {
  const double alpha = patient.diagnosis.alpha;
  if (!needs_alpha(patient) || patient.sane.starts_with(name_of(SaneKind::trained)))
    return std::nullopt;
  const std::optional<double> now = alpha_in(patient.sane);
  return now && *now <= alpha ? *now / 2 : alpha;
}

nlohmann::ordered_json json_of(const Patient& patient) {
  const probe::Diagnosis& found = patient.diagnosis;
  const probe::Background& background = found.background;
  nlohmann::ordered_json json{{"model", patient.model},
                              {"sane", patient.sane},
                              {"position", found.position},
                              {"records", found.records},
                              {"background",
                               {{"median", background.median},
                                {"largest", background.largest},
                                {"share_above_10", background.above_10},
                                {"share_above_100", background.above_100},
                                {"anomalous_share_of_squares", background.anomalous_squares},
                                {"heads_with_99_percent_of_squares", background.heads_with_99}}},
                              {"overflows", nlohmann::ordered_json::array()},
                              {"heads", nlohmann::ordered_json::array()}};
  if (const auto tokens = tokens_into_chunk(patient)) json["tokens_into_chunk"] = *tokens;
  if (const auto alpha = suggested_alpha(patient))
    json["suggested"] = {{"alpha", *alpha}, {"tau", kernel::tau_at_zero(*alpha)}};
  for (const probe::StreamBreak& b : found.breaks)
    array_at(json, "overflows")
        .push_back(
            {{"stream", b.stream}, {"position", b.position}, {"layer", b.layer}, {"head", b.head}});
  for (const probe::HeadDiagnosis& head : found.heads)
    array_at(json, "heads").push_back(json_of(head));
  return json;
}

std::string growth_text(const probe::Growth& growth) {
  switch (growth.law) {
    case probe::GrowthLaw::linear:
      return fmt::format("linear, {:.3g} per token, doubles in {:.3g}", growth.rate,
                         growth.doubling);
    case probe::GrowthLaw::exponential:
      return fmt::format("exponential, {:.3g} per token, doubles every {:.3g}", growth.rate,
                         growth.doubling);
    default:
      return "-";
  }
}

void print_heads(const Patient& patient, int64_t most) {
  const auto& heads = patient.diagnosis.heads;
  const auto anomalous =
      std::ranges::count_if(heads, [](const probe::HeadDiagnosis& h) { return h.anomalous(); });
  fmt::print("anomalous heads      {} of {} ({} |S| above {})\n", anomalous, heads.size(),
             patient.diagnosis.records > 1 ? "growing, or max" : "one record shows no growth; max",
             probe::hot_limit);
  if (anomalous == 0) return;
  fmt::print("\n{:>9} {:>10} {:>10} {:>10} {:>9} {:>10}  {}\n", "head", "norm", "max |S|", "median",
             "squares", "hot since", "growth of the norm");
  for (int64_t i = 0; i < std::min<int64_t>(anomalous, most); ++i) {
    const probe::HeadDiagnosis& h = heads[size_t(i)];
    const std::string name = patient.streams > 1
                                 ? fmt::format("{}:{}.{}", h.stream, h.layer, h.head)
                                 : fmt::format("{}.{}", h.layer, h.head);
    fmt::print("{:>9} {:>10.3g} {:>10.3g} {:>10.3g} {:>7.2f} % {:>10}  {}\n", name, h.norm,
               h.largest, h.median, 100 * h.share_of_squares,
               h.hot_since ? fmt::format("{}", *h.hot_since) : "-", growth_text(h.growth));
  }
  if (anomalous > most)
    fmt::print("{:>9} {} more; list them with --most {}\n", "", anomalous - most, anomalous);
  fmt::print("\n");
}

void print_suggestion(const Patient& patient) {
  const probe::Diagnosis& found = patient.diagnosis;
  if (!needs_alpha(patient)) {
    if (found.alpha != 0)
      fmt::print("advice               none from one record; `deltasane stream` shows whether heads grow\n");
    return;
  }
  if (!suggested_alpha(patient)) {
    fmt::print("suggested            train further with a smaller model.sane_alpha\n");
    return;
  }
  const double alpha = *suggested_alpha(patient), tau = kernel::tau_at_zero(alpha);
  fmt::print(
      "suggested            --sane-alpha {:.2g}: |S| <= tau = {:.3g} and a head's norm <= {:.3g}, {}\n",
      alpha, tau, tau * std::sqrt(double(found.most_entries)),
      alpha < found.alpha   ? "half of what is in use"
      : found.has_healthy ? "with tau as large as the entries of healthy heads"
                          : "tau is near the median entry because every head is anomalous");
}

int diagnose_path(const DiagnoseOptions& options) {
  const Patient patient =
      fs::is_directory(options.path) ? from_folder(options.path) : from_state(options.path);
  if (options.json) {
    fmt::print("{}\n", json_text(json_of(patient)));
    return 0;
  }
  const probe::Diagnosis& found = patient.diagnosis;
  fmt::print("model                {}, {}\n", terminal_text(patient.model),
             terminal_text(patient.sane));
  fmt::print("position             {} ({} of each head)\n", found.position,
             counted(found.records, "record"));
  if (const int64_t tokens = tokens_into_chunk(patient).value_or(0); tokens > 0)
    fmt::print("inside a chunk       {} since SANE acted: |S| may be above tau until the chunk's end\n",
               counted(tokens, "token"));
  for (const probe::StreamBreak& b : found.breaks)
    fmt::print("overflow             stream {} after {} tokens, from layer {}, head {}\n", b.stream,
               b.position, b.layer, b.head);
  print_heads(patient, options.most);
  const probe::Background& background = found.background;
  fmt::print("background           median |S| {:.3g}, largest {:.3g}: {:.3g} times as much\n",
             background.median, background.largest,
             background.median > 0 ? background.largest / background.median : 0.0);
  fmt::print("entries above        10: {:.4f} %, 100: {:.4f} %\n", 100 * background.above_10,
             100 * background.above_100);
  fmt::print("sum of squares       {:.2f} % in anomalous heads; {} of {} heads hold 99 %\n",
             100 * background.anomalous_squares, background.heads_with_99, found.heads.size());
  print_suggestion(patient);
  return 0;
}

}  // namespace

const Command diagnose{
    "diagnose", "which heads of a state grow, how, and since when", [](CLI::App& app) {
      auto options = std::make_shared<DiagnoseOptions>();
      app.add_option("PATH", options->path, "a folder that `deltasane stream` wrote, or a state")
          ->required();
      app.add_option("--most", options->most, "how many anomalous heads to list")
          ->check(at_least(0))
          ->capture_default_str();
      app.add_flag("--json", options->json, "print JSON, with every head");
      app.footer(
          "Examples:\n  deltasane diagnose base\n"
          "  deltasane diagnose base/snapshots/stream-0-position-65536.state --json");
      return [options] { return diagnose_path(*options); };
    }};

}  // namespace deltasane::cli
