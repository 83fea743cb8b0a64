#include "faults/scenario.h"

#include <algorithm>
#include <sstream>

#include "base/cat.h"
#include "base/io/file.h"

namespace deltasane::test {
namespace {

std::string training(const fs::path& folder, int steps) {
  return cat("[model]\nlayers = 1\nchannels = 64\n[corpus]\nsource = 'math-chat:seed=1'\n",
             "[optimizer]\nkind = 'adamw'\nsteps = ", steps,
             "\nsequences = 1\ncontext = 16\nrate = 0.01\n[run]\nfolder = '", folder.string(),
             "'\nsave_every = 2\nkeep = 1\nthreads = 1\n");
}

bool depends_on_clock(const std::string& name) {
  return name.find("speed.csv") != name.npos || name.find("metrics.jsonl") != name.npos ||
         name.find("report.html") != name.npos ||
         name.find("events") != name.npos;
}

// Of a journal, whose order says only what was done first.
std::string sorted_lines(const std::string& text) {
  std::istringstream all(text);
  std::vector<std::string> lines;
  for (std::string line; std::getline(all, line);) lines.push_back(line);
  std::ranges::sort(lines);
  std::string sorted;
  for (const std::string& line : lines) sorted += line + "\n";
  return sorted;
}

std::vector<std::string> joined(std::vector<std::string> words, const std::string& last) {
  words.push_back(last);
  return words;
}

}  // namespace

FaultBench::FaultBench() {
  const fs::path config = folder("model.toml");
  replace_file(config, training(folder("model"), 1));
  run({DELTASANE_PROGRAM, "train", config});
  model_ = folder("model/step_00000001/model.safetensors");
}

void FaultBench::prepare(const std::string& scenario, const fs::path& folder) const {
  fs::remove_all(folder);
  fs::create_directories(folder);
  if (scenario == "convert") replace_file(folder / "half.safetensors", "an old file");
  if (scenario == "generate") replace_file(folder / "text.state", "an old file");
  if (scenario == "train") replace_file(folder / "train.toml", training(folder / "run", 4));
}

std::vector<Scenario> FaultBench::scenarios(const fs::path& folder) const {
  const std::string program = DELTASANE_PROGRAM;
  const std::vector<std::string> convert{program,  "convert", model_, folder / "half.safetensors",
                                         "--type", "f16"};
  const std::vector<std::string> generate{program,
                                          "generate",
                                          model_,
                                          "--prompt",
                                          "1 + 1 =",
                                          "--seed",
                                          "1",
                                          "--threads",
                                          "1",
                                          "--tokens",
                                          "4",
                                          "--state-out",
                                          folder / "text.state"};
  const std::vector<std::string> train{program, "train", folder / "train.toml"};
  const std::vector<std::string> stream{program,
                                        "stream",
                                        model_,
                                        "--corpus",
                                        "math-chat:seed=1",
                                        "--tokens",
                                        "192",
                                        "--out",
                                        folder / "run",
                                        "--segment",
                                        "64",
                                        "--snapshots",
                                        "64",
                                        "--checkpoint-every",
                                        "64",
                                        "--threads",
                                        "1"};
  const std::vector<std::string> eval{
      program, "eval",     model_, "--suite",   "math-chat", "--limit", "1",           "--samples",
      "2",     "--tokens", "4",    "--threads", "1",         "--out",   folder / "run"};
  const std::vector<std::string> answers{program,
                                         "answers",
                                         "check",
                                         "--threads",
                                         "1",
                                         "--gold",
                                         "$\\frac{2^{90}+\\sqrt{2}}{3}$",
                                         "--pred",
                                         "$\\frac{\\sqrt{2}+2^{90}}{3}$"};
  return {{"convert", convert, convert},
          {"generate", generate, generate},
          {"train", train, joined(train, "--resume")},
          {"stream", stream, joined(stream, "--resume")},
          {"eval", eval, eval},
          {"answers", answers, answers}};
}

Outcome run_with_shim(const std::vector<std::string>& words,
                      const std::vector<std::string>& variables) {
  std::vector<std::string> all{"timeout", "60", "env", cat("LD_PRELOAD=", DELTASANE_FAULT_SHIM)};
  all.insert(all.end(), variables.begin(), variables.end());
  all.insert(all.end(), words.begin(), words.end());
  return run(all);
}

std::map<std::string, std::string> files_below(const fs::path& folder) {
  std::map<std::string, std::string> files;
  if (fs::exists(folder))
    for (const auto& entry : fs::recursive_directory_iterator(folder)) {
      const std::string name = fs::relative(entry.path(), folder).string();
      if (entry.is_regular_file() && !depends_on_clock(name))
        files[name] = name.ends_with(".jsonl") ? sorted_lines(read_file(entry.path()))
                                               : read_file(entry.path());
    }
  return files;
}

std::vector<std::string> litter_below(const fs::path& folder) {
  std::vector<std::string> found;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (name.find(".tmp-") != name.npos || name.find(".part-") != name.npos) found.push_back(name);
  }
  return found;
}

}  // namespace deltasane::test
