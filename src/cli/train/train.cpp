#include <fmt/format.h>
#include <xxhash.h>
#include <CLI/CLI.hpp>
#include <chrono>
#include <csignal>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/io/folder_lock.h"
#include "base/timing.h"
#include "cli/command.h"
#include "cli/counted.h"
#include "cli/duration.h"
#include "cli/memory_advice.h"
#include "cli/terminal/interrupt.h"
#include "cli/terminal/progress_line.h"
#include "cli/train/training_page.h"
#include "comm/group.h"
#include "eval/answer_accuracy.h"
#include "format/tokenizer/find_tokenizer.h"
#include "train/checkpoint.h"
#include "train/config_keys.h"
#include "train/event_file.h"

namespace deltasane::cli {
namespace {

using MetricsRow = nlohmann::ordered_json;

struct TrainOptions {
  std::string config, device;
  std::vector<std::string> set;
  bool resume = false, unverified = false, check = false, keys = false;
};

// One JSON object a line, and the same numbers for TensorBoard. Lines behind the step that a run
// resumes from are dropped: that part of the run is made again.
class Metrics {
 public:
  Metrics(const fs::path& path, int64_t step)
      : path_(path), events_(path.parent_path() / "events", wall_clock()) {
    std::string kept;
    if (step > 0 && fs::exists(path)) {
      std::istringstream lines(read_file(path));
      for (std::string line; std::getline(lines, line);) {
        const MetricsRow row = MetricsRow::parse(line, nullptr, false);
        if (row.is_object() && row.value("step", int64_t{0}) <= step) kept += line + "\n";
      }
    }
    replace_file(path, kept);
  }
  void add(const MetricsRow& row) {
    for (const auto& [name, value] : row.items())
      if (name != "step") events_.add(wall_clock(), row["step"], name, value.get<float>());
    std::ofstream file(path_, std::ios::app);
    file << row.dump() << "\n";
    if (!file.flush() && !complained_) {
      complained_ = true;
      fmt::print(stderr, "deltasane: {}: expected to add a line, found no room; continuing\n",
                 path_.string());
    }
  }

 private:
  static double wall_clock() {
    return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch())
        .count();
  }

  fs::path path_;
  train::EventFile events_;
  bool complained_ = false;
};

class TrainLoop {
 public:
  // The first of the group's processes speaks and writes for all.
  TrainLoop(train::TrainingRun& run, const fs::path& folder, comm::Group& group)
      : run_(run), folder_(folder), group_(group) {
    if (speaks()) metrics_.emplace(folder / "metrics.jsonl", run.progress().step);
  }

  void evaluate() {
    const train::EvaluationReport report = run_.evaluate();
    MetricsRow row{{"step", report.step}};
    std::string line = fmt::format("step {:>6}  evaluation", report.step);
    if (report.loss) {
      row["held_out_loss"] = *report.loss;
      line += fmt::format("  held-out loss {:.4f}", *report.loss);
    }
    if (report.accuracy) {
      row["answer_accuracy"] = *report.accuracy;
      line += fmt::format("  answers {:.1f} %", 100 * *report.accuracy);
    }
    if (!speaks()) return;
    metrics_->add(row);
    fmt::print("{}\n", line);
    std::fflush(stdout);
    write_page();
  }

  // A disk that is full does not end a run: the checkpoint before stays.
  bool save() {
    run_.expect_agreement();
    return group_.any(speaks() && save_here());
  }

  bool save_here() {
    try {
      const fs::path place = train::save_checkpoint(folder_, run_, run_.config().run.keep);
      saved_ = run_.progress().step;
      fmt::print("saved {}\n", place.string());
      return true;
    } catch (const Error& error) {
      fmt::print(stderr, "deltasane: no checkpoint at step {}: {}; continuing\n",
                 run_.progress().step, error.what());
      return false;
    }
  }

  // An error between two updates costs no work: what was learned is saved, by the first process alone
  // and without the others, who may be gone.
  int run() {
    const int64_t first = run_.progress().step;
    try {
      return run_all_steps(first);
    } catch (...) {
      const int64_t step = run_.progress().step;
      if (speaks() && run_.is_whole() && step > first && step > saved_) save_here();
      throw;
    }
  }

 private:
  int run_all_steps(int64_t first) {
    const train::TrainConfig& config = run_.config();
    const bool evaluates = config.evaluation.every > 0;
    if (evaluates && run_.progress().step == 0) evaluate();
    const double began = seconds_now();
    double shown = began;
    bool saved = false;
    bool stop = false;
    while (!run_.finished() && !(stop = group_.any(interrupts() > 0))) {
      const double before = seconds_now();
      const train::StepReport report = step();
      const double now = seconds_now();
      saved = false;
      const double speed = double(report.tokens) / (now - before);
      if (speaks() && report.step % config.run.metrics_every == 0)
        metrics_->add({{"step", report.step},
                       {"loss", report.loss},
                       {"rate", report.rate},
                       {"gradient_length", report.gradient_length},
                       {"tokens", run_.progress().tokens},
                       {"tokens_per_s", speed}});
      if (speaks() && (now - shown > 2 || run_.finished())) {
        shown = now;
        const double each = (now - began) / double(report.step - first);
        fmt::print("step {:>6}/{}  loss {:.4f}  rate {:.2e}  {:.0f} tokens/s  {} left\n",
                   report.step, config.schedule.steps, report.loss, report.rate, speed,
                   duration_text(each * double(config.schedule.steps - report.step)));
        std::fflush(stdout);
      }
      if (evaluates && (report.step % config.evaluation.every == 0 || run_.finished())) evaluate();
      if (config.run.save_every > 0 && report.step % config.run.save_every == 0) saved = save();
    }
    if (!saved && run_.progress().step > first) saved = save();
    write_page();
    if (stop && speaks())
      fmt::print("stopped after step {}; continue with --resume\n", run_.progress().step);
    if (!saved && run_.progress().step > first) return 1;
    return stop ? interrupted_code : 0;
  }

  // For people: that it cannot be written ends no run.
  void write_page() {
    if (!speaks()) return;
    try {
      write_training_page(folder_, fmt::format("Training: {}", folder_.filename().string()));
    } catch (const Error& error) {
      fmt::print(stderr, "deltasane: no page of the run: {}; continuing\n", error.what());
    }
  }

  // An error of the numbers says where the run was.
  train::StepReport step() {
    try {
      train::StepReport report = run_.step();
      last_loss_ = report.loss;
      return report;
    } catch (const Error& error) {
      if (error.fault() != Fault::overflow && error.fault() != Fault::argument) throw;
      const train::Progress& at = run_.progress();
      const std::string_view what = error.what();
      std::string place;
      if (!what.starts_with("step "))
        place = fmt::format("step {} (corpus piece {}, token {}): ", at.step + 1, at.cursor.piece,
                            at.cursor.token);
      fail(Fault::overflow, place, what, "; the rate was ",
           fmt::format("{:.3g}", run_.config().schedule.at(at.step)), ", the loss before ",
           last_loss_ ? fmt::format("{:.4g}", *last_loss_) : "unknown",
           ". Try a lower optimizer.rate, or a longer warmup");
    }
  }

  bool speaks() const { return group_.rank() == 0; }

  train::TrainingRun& run_;
  fs::path folder_;
  comm::Group& group_;
  std::optional<Metrics> metrics_;
  std::optional<double> last_loss_;
  int64_t saved_ = -1;  // the step of the last checkpoint of this process
};

// The first process holds the folder for all.
std::unique_ptr<FolderLock> take_folder(const fs::path& folder, const TrainOptions& options,
                                        const comm::Group& group) {
  if (group.rank() != 0) return nullptr;
  auto lock = std::make_unique<FolderLock>(folder);
  train::remove_unfinished(folder);
  if (!options.resume) train::expect_no_checkpoints(folder, "--resume");
  return lock;
}

void introduce(const train::TrainingRun& run, const train::TrainConfig& config, int processes,
               int threads) {
  const TrainableDescription model = run.model().description();
  const train::TrainingPlan& plan = run.plan();
  fmt::print(
      "{} of {}, {:.2f} M parameters, {}; {}, {}, {} of {} of {}\n",
      counted(model.layers, "layer"), counted(model.channels, "channel"),
      double(run.layout().parameters()) / 1e6,
      run.model().sane() ? fmt::format("SANE with alpha {}", run.model().sane()->alpha) : "no SANE",
      name_of(config.optimizer.kind), train::name_of(config.precision),
      counted(config.schedule.steps, "step"), counted(config.rows_of_step(), "row"),
      counted(config.context, "token"));
  fmt::print("{} with {} on {}, {} {} each, activations {}{}\n",
             counted(processes, "process", "processes"), counted(threads, "thread"),
             config.run.device, counted(plan.split.accumulate, "time"),
             counted(plan.split.micro_batch, "row"),
             plan.split.activations == Activations::keep ? "kept" : "recomputed",
             run.sums_by().empty() ? "" : fmt::format(", sums by {}", run.sums_by()));
  fmt::print("memory on {}: {}, of {} free\n", plan.device, plan.need.text(),
             bytes_text(plan.found.free));
  if (!plan.host_need.parts.empty())
    fmt::print("memory of the host: {}, of {} free\n", plan.host_need.text(),
               bytes_text(plan.host_found.free));
}

// A Markdown table of every key: docs/training-keys.md.
void print_keys() {
  fmt::print("| key | type | if not given | what |\n|---|---|---|---|\n");
  for (const train::ConfigKey& key : train::config_keys())
    fmt::print("| `{}.{}` | {} | {} | {} |\n", key.section, key.key, key.type, key.value, key.what);
}

int train_model(const TrainOptions& options) {
  if (options.keys) return print_keys(), 0;
  if (options.config.empty())
    fail(Fault::usage, "train: expected a TOML file, found none; see examples/ and --keys");
  const std::string text = read_file(options.config);
  train::TrainConfig config = train::read_config(text, options.config, options.set, "--set");
  if (!options.device.empty()) config.run.device = options.device;
  const fs::path folder = config.run.folder;
  if (options.resume) train::take_settings_of_newest(folder, config);
  const std::unique_ptr<Tokenizer> tokenizer = open_vocabulary(config.corpus.tokenizer);
  const std::shared_ptr<comm::Group> group = comm::join();
  // A large data set is read as a whole once: by one process, which the others wait for.
  if (group->rank() == 0) {
    ProgressLine line(ProgressLine::First::after_a_pause);
    corpus::open_source(config.corpus.source, opening_progress(line));
    line.end();
  }
  std::string settings = text;
  for (const std::string& one : options.set) settings += '\n' + one;
  group->expect_same("configuration", XXH3_64bits(settings.data(), settings.size()));
  ThreadPool threads(int(config.run.threads));
  train::TrainingRun run(config, *tokenizer, {threads}, group,
                         [&](const LanguageModel& model, const train::TrainConfig::Evaluation& e) {
                           return eval::answer_accuracy(model, *tokenizer, e.answers, e.problems,
                                                        e.longest_answer, {threads});
                         });
  // A run that cannot be leaves no folder.
  const std::unique_ptr<FolderLock> lock =
      options.check ? nullptr : take_folder(folder, options, *group);
  if (options.resume) {
    std::vector<std::string> passed_over;
    const fs::path from = train::resume_newest(
        folder, run, passed_over,
        options.unverified ? ChangedFiles::allow : ChangedFiles::refuse);
    run.expect_agreement();
    for (const std::string& fault : passed_over)
      fmt::print(stderr, "deltasane: passed over a damaged checkpoint: {}\n", fault);
    if (group->rank() == 0) fmt::print("resumed from {}\n", from.string());
  }
  if (group->rank() == 0) introduce(run, config, group->size(), threads.size());
  const int64_t left = config.schedule.steps - run.progress().step;
  if (left == 0 && group->rank() == 0)
    fmt::print("already finished: all {} are done\n", counted(config.schedule.steps, "step"));
  const double step_seconds = left > 0 ? run.expected_step_seconds() : 0;
  if (left > 0 && group->rank() == 0) {
    fmt::print("time: about {} for {} of {:.3g} s, by a trial pass; updates, evaluations and "
               "checkpoints come on top\n",
               duration_text(step_seconds * double(left)), counted(left, "step"), step_seconds);
    std::fflush(stdout);
  }
  if (options.check) return 0;
  count_interrupts({SIGTERM, SIGINT});  // the step that runs is finished and saved
  return TrainLoop(run, folder, *group).run();
}

}  // namespace

const Command train{
    "train", "train a model from scratch or from a checkpoint", [](CLI::App& app) {
      auto options = std::make_shared<TrainOptions>();
      app.add_option("CONFIG", options->config, "a TOML file; see examples/");
      app.add_flag("--keys", options->keys, "print every key of such a file, with its default");
      app.add_flag("--resume", options->resume, "resume from the newest checkpoint in run.folder");
      app.add_flag("--resume-unverified", options->unverified,
                   "with --resume: also where the corpus or the vocabulary has changed");
      app.add_option("--device", options->device, "cpu or cuda[:n], instead of run.device");
      app.add_option("--set", options->set,
                     "SECTION.KEY=VALUE, instead of what the file has; may be given again")
          ->allow_extra_args(false);
      app.add_flag("--check", options->check,
                   "open model, data and device, print memory and time, and train nothing");
      app.footer(
          "SIGTERM and SIGINT finish the step and save; the exit code is 130. A resumed run equals "
          "one that never stopped.\nExamples:\n  deltasane train examples/one_minute.toml\n"
          "  deltasane train examples/sane_sft.toml --device cuda\n"
          "  deltasane train examples/sane_sft.toml --set model.sane_alpha=5 --set "
          "run.folder=runs/five\n"
          "  mpirun -n 4 deltasane train examples/long_memory.toml\n"
          "  mpirun -n 8 deltasane train examples/sane_sft.toml --device cuda");
      return [options] {
        return with_memory_advice(
            "a smaller run.micro_batch (or fewer optimizer.sequences with more "
            "optimizer.accumulate), or run.recompute = true, needs less",
            [&] { return train_model(*options); });
      };
    }};

}  // namespace deltasane::cli
