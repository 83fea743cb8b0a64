#include "eval/run/run_folder.h"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/io/folder_lock.h"
#include "base/io/seal.h"
#include "base/json/array_at.h"
#include "base/json/json_text.h"
#include "base/printable.h"
#include "eval/run/journal.h"
#include "infer/engine/text_writer.h"

namespace deltasane::eval {
namespace {

using SettingsJson = nlohmann::ordered_json;

SettingsJson parsed_settings(const fs::path& file) {
  const std::string text = read_file(file);
  if (has_seal(text)) static_cast<void>(unsealed(text, file.string()));
  SettingsJson json = parse_json<SettingsJson>(text);
  if (!json.is_object() || !json.contains("benchmarks") || !json.contains("sane"))
    fail(Fault::file, file.string(), ": expected the settings of a run, found other text");
  return json;
}

// Processes that end at one time put the same shards together, one after the other.
constexpr double merge_patience = 10;

// The folder itself, where it holds a run, and its shards; in order.
std::vector<fs::path> parts_of(const fs::path& folder) {
  if (!fs::is_directory(folder))
    fail(Fault::file, folder.string(), ": expected the folder of a run, found none");
  std::vector<fs::path> parts;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder))
    if (entry.is_directory() && entry.path().filename().string().starts_with("shard-") &&
        fs::exists(entry.path() / "run.json"))
      parts.push_back(entry.path());
  std::ranges::sort(parts);
  if (fs::exists(folder / "run.json")) parts.insert(parts.begin(), folder);
  if (parts.empty())
    fail(Fault::file, folder.string(), ": expected run.json or shards of a run, found neither");
  return parts;
}

// The names of the settings that differ, for a message.
std::string differing(const std::string& here, const std::string& there) {
  const auto a = parse_json<SettingsJson>(here);
  const auto b = parse_json<SettingsJson>(there);
  std::string names;
  if (a.is_object() && b.is_object())
    for (const auto& [name, value] : a.items())
      if (name != "xxh3" && (!b.contains(name) || b[name] != value))
        names += cat(names.empty() ? "" : "; ", name, ": ", value.dump(), " here, ",
                     b.contains(name) ? b[name].dump() : "nothing", " there");
  return names.empty() ? "other text" : names;
}

Seals seals_of(const Run& run) { return run.sealed ? Seals::required : Seals::absent; }

// Without what follows from the content of files.
SettingsJson without_digests(const std::string& settings) {
  SettingsJson json = SettingsJson::parse(settings, nullptr, false);
  for (const char* name : {"model_identity", "tokenizer_digest", "prefix_digest", "xxh3"})
    if (json.is_object()) json.erase(name);
  if (json.is_object() && json.contains("benchmarks"))
    for (auto& benchmark : json["benchmarks"])
      if (benchmark.is_object()) benchmark.erase("digest");
  return json;
}

Run described_by(const fs::path& part, const std::string& name) {
  const SettingsJson json = parsed_settings(part / "run.json");
  Run run;
  run.name = name;
  run.settings = read_file(part / "run.json");
  run.sealed = has_seal(run.settings);
  try {
    run.sane = json["sane"].at("kind").get<std::string>();
    run.alpha = json["sane"].at("alpha").get<double>();
    run.prefix = json.value("prefix", "");
    for (const auto& one : json["benchmarks"])
      run.benchmarks.push_back({one.at("name").get<std::string>(),
                                one.at("title").get<std::string>(),
                                one.at("problems").get<int64_t>(),
                                {}});
  } catch (const SettingsJson::exception& error) {
    fail(Fault::file, (part / "run.json").string(),
         ": expected the settings of a run, found: ", error.what());
  }
  return run;
}

void add_part(Run& run, const fs::path& part) {
  const std::string settings = read_file(part / "run.json");
  if (settings != run.settings)
    fail(Fault::file, part.string(), ": expected the settings of the other shards, found ",
         differing(settings, run.settings));
  const auto benchmark_of = [&](const std::string& name, const std::string& where) -> RunBenchmark& {
    const auto at = std::ranges::find(run.benchmarks, name, &RunBenchmark::name);
    if (at == run.benchmarks.end())
      fail(Fault::file, where, ": expected a benchmark of run.json, found ", printable(name));
    return *at;
  };
  size_t number = 0;
  if (const fs::path samples = part / "samples.jsonl"; fs::exists(samples))
    for (const std::string& line : read_journal(samples, seals_of(run))) {
      const std::string where = cat(samples.string(), ":", ++number);
      const SampleRow row = sample_from_json(line, where);
      benchmark_of(row.problem.first, where).overflowed[{row.problem.second, row.sample}] =
          row.ended == name_of(Ended::overflow);
    }
  const fs::path file = part / "problems.jsonl";
  if (!fs::exists(file)) return;
  number = 0;
  for (const std::string& line : read_journal(file, seals_of(run))) {
    const std::string where = cat(file.string(), ":", ++number);
    const ProblemRow row = problem_from_json(line, where);
    benchmark_of(row.problem.first, where).done[row.problem.second] = row;
  }
}

// The lines of one of the files of all parts, in the order of the benchmarks, rows and samples.
std::string ordered_lines(const Run& run, std::span<const fs::path> parts, const char* name,
                          bool samples) {
  std::map<std::tuple<size_t, int64_t, int64_t>, std::string> lines;
  for (const fs::path& part : parts) {
    if (!fs::exists(part / name)) continue;
    size_t number = 0;
    for (const std::string& line : read_journal(part / name, seals_of(run))) {
      const std::string where = cat((part / name).string(), ":", ++number);
      const auto sample = samples ? sample_from_json(line, where) : SampleRow{};
      const ProblemKey key = samples ? sample.problem : problem_from_json(line, where).problem;
      const auto at = std::ranges::find(run.benchmarks, key.first, &RunBenchmark::name);
      lines[{size_t(at - run.benchmarks.begin()), key.second, sample.sample}] = line;
    }
  }
  std::string text;
  for (const auto& [key, line] : lines) text += cat(run.sealed ? sealed(line) : line, "\n");
  return text;
}

}  // namespace

RunScore score_of(const RunBenchmark& benchmark) {
  RunScore score;
  int64_t samples = 0, right = 0, unparsed = 0;
  for (const auto& [row, problem] : benchmark.done) {
    ++score.problems;
    score.correct += problem.correct;
    samples += problem.samples;
    right += problem.right_samples;
    unparsed += problem.unparsed;
    score.refused += problem.refused;
  }
  score.samples = int64_t(benchmark.overflowed.size());
  for (const auto& [sample, overflowed] : benchmark.overflowed) score.overflowed += overflowed;
  const auto percent = [](int64_t part, int64_t whole) {
    return whole ? 100.0 * double(part) / double(whole) : 0.0;
  };
  score.accuracy = percent(score.correct, score.problems);
  score.pass_at_1 = percent(right, samples);
  score.unparsed = percent(unparsed, samples);
  return score;
}

std::string Run::missing() const {
  std::string text;
  for (const RunBenchmark& benchmark : benchmarks)
    if (const int64_t done = int64_t(benchmark.done.size()); done != benchmark.problems)
      text += cat(text.empty() ? "" : ", ", benchmark.problems - done, " of ", benchmark.problems,
                  " problems of ", benchmark.name);
  return text;
}

bool Run::complete() const { return missing().empty(); }

Shard shard_from(const std::string& text) {
  Shard shard;
  const char *const begin = text.data(), *const end = begin + text.size();
  const auto first = std::from_chars(begin, end, shard.index);
  const bool slash = first.ec == std::errc() && first.ptr < end && *first.ptr == '/';
  const auto second = std::from_chars(slash ? first.ptr + 1 : end, end, shard.count);
  if (!slash || second.ec != std::errc() || second.ptr != end || shard.index < 0 ||
      shard.index >= shard.count)
    fail(Fault::usage, "shard: expected I/N with I from 0 to N-1, found '", text, "'");
  return shard;
}

fs::path shard_folder(const fs::path& run, const Shard& shard) {
  return shard.count == 1 ? run : run / cat("shard-", shard.index, "-of-", shard.count);
}

void claim_folder(const fs::path& folder, const std::string& settings, ChangedFiles changed) {
  const fs::path file = folder / "run.json", samples = folder / "samples.jsonl";
  const bool begun = fs::exists(samples) && fs::file_size(samples) > 0;
  if (!fs::exists(file) || !begun) return replace_file(file, settings);
  const std::string found = read_file(file);
  if (found == settings) return;
  if (changed == ChangedFiles::allow && without_digests(found) == without_digests(settings)) {
    if (has_seal(found)) return;
    for (const char* journal : {"samples.jsonl", "problems.jsonl"}) seal_journal(folder / journal);
    return replace_file(file, settings);
  }
  if (!has_seal(found) && without_digests(found) == without_digests(settings))
    fail(Fault::file, folder.string(),
         ": expected a run with checksums, found one of a version without, in which damage cannot "
         "be seen; give another output folder, or allow an unverified resume");
  fail(Fault::file, folder.string(),
       ": expected a run with the same settings, found another; give another output folder (",
       differing(settings, found), ")");
}

Run read_run(const fs::path& folder) {
  const std::vector<fs::path> parts = parts_of(folder);
  const fs::path named = folder.filename().empty() ? folder.parent_path() : folder;
  Run run = described_by(parts[0], named.filename().string());
  for (const fs::path& part : parts) add_part(run, part);
  return run;
}

Run merge_runs(std::span<const fs::path> folders, const fs::path& out) {
  require(!folders.empty(), "a merge has folders");
  std::vector<fs::path> parts;
  for (const fs::path& folder : folders)
    for (const fs::path& part : parts_of(folder)) parts.push_back(part);
  Run run = described_by(parts[0], out.filename().string());
  for (const fs::path& part : parts) add_part(run, part);
  if (!run.complete())
    fail(Fault::file, out.string(), ": expected all shards of the run, found ", run.missing(),
         " missing");
  const FolderLock lock(out, merge_patience);
  const std::string samples = ordered_lines(run, parts, "samples.jsonl", true);
  const std::string problems = ordered_lines(run, parts, "problems.jsonl", false);
  claim_folder(out, run.settings);
  replace_file(out / "samples.jsonl", samples);
  replace_file(out / "problems.jsonl", problems);
  write_scores(run, out);
  return run;
}

void write_scores(const Run& run, const fs::path& folder) {
  SettingsJson json{{"rules", answers::rule_set}, {"benchmarks", SettingsJson::array()}};
  double accuracy = 0, pass = 0;
  for (const RunBenchmark& benchmark : run.benchmarks) {
    const RunScore score = score_of(benchmark);
    accuracy += score.accuracy / double(run.benchmarks.size());
    pass += score.pass_at_1 / double(run.benchmarks.size());
    array_at(json, "benchmarks")
        .push_back({{"name", benchmark.name},
                    {"problems", score.problems},
                    {"correct", score.correct},
                    {"accuracy", score.accuracy},
                    {"pass_at_1", score.pass_at_1},
                    {"unparsed", score.unparsed},
                    {"refused_samples", score.refused},
                    {"samples", score.samples},
                    {"overflowed_samples", score.overflowed}});
  }
  json["average_accuracy"] = accuracy;
  json["average_pass_at_1"] = pass;
  replace_file(folder / "scores.json", json.dump(2) + "\n");
}

}  // namespace deltasane::eval
