#include <fmt/format.h>
#include <unistd.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "base/timing.h"
#include "cli/command.h"
#include "cli/open_model.h"
#include "cli/terminal/terminal.h"
#include "cli/own_commands.h"
#include "cli/stream/demo_pair.h"
#include "corpus/math/chat.h"
#include "eval/stream/problem_probe.h"
#include "eval/stream/stream_folder.h"
#include "eval/stream/stream_run.h"
#include "infer/state_file.h"
#include "model/sane.h"
#include "text/byte_tokenizer.h"
#include "train/checkpoint.h"

namespace deltasane::cli {
namespace {

struct DemoOptions {
  std::string out = "demo", models;  // models: not given, where the program was built
  std::optional<int64_t> tokens;     // not given: as the task says
  double alpha = 3;
  int threads = 0;
  bool train = false;
};

constexpr const char* sums = "level=1,style=brief,family=addition";
constexpr int64_t questions = 64, smallest_slice = 4096, largest_slice = 1 << 20;

// Channels that hardly forget are what a long training gives; a shift of the decay's and the
// rate's bias gives them at once.
std::string recipe(const std::string& model, const fs::path& folder, int64_t steps, double rate) {
  return fmt::format(
      "[model]\n{}\n[corpus]\nsource = \"math-chat:seed=1,{}\"\ntokenizer = \"byte\"\n"
      "[optimizer]\nkind = \"muon\"\nsteps = {}\nsequences = 8\ncontext = 128\nrate = {}\n"
      "weight_decay = 0.05\nwarmup = 20\n[run]\nfolder = '{}'\nkeep = 1\n",
      model, sums, steps, rate, folder.string());
}

class Line {  // that is written over on a terminal
 public:
  void show(const std::string& text, bool last = false) {
    if (!terminal_ && !last) return;
    if (terminal_) clear_line(stdout);
    fmt::print("{}{}", text, last ? "\n" : "");
    std::fflush(stdout);
  }

 private:
  bool terminal_ = ::isatty(STDOUT_FILENO) != 0;
};

// The model file of a finished run; trained now unless an earlier demo left it.
fs::path trained(const std::string& what, const std::string& text, ThreadPool& threads) {
  const ByteTokenizer tokenizer;
  train::TrainingRun run(train::read_config(text, "demo"), tokenizer, {threads});
  const fs::path folder = run.config().run.folder;
  if (train::checkpoints_in(folder).empty()) {
    Line line;
    const double begin = seconds_now();
    while (!run.finished()) {
      const train::StepReport report = run.step();
      line.show(fmt::format("{}: step {} of {}, loss {:.3f}, {:.0f} s", what, report.step,
                            run.config().schedule.steps, report.loss, seconds_now() - begin),
                run.finished());
    }
    train::save_checkpoint(folder, run, 1);
  }
  return train::checkpoints_in(folder).back() / "model.safetensors";
}

// What an earlier demo left in a folder of records, which is continued.
struct EarlierStream {
  int64_t position = 0, slice = 0;
};

EarlierStream earlier_stream(const fs::path& folder) {
  if (!fs::exists(folder / segments_file)) return {};
  const probe::RecordTable rows = probe::read_records(folder / segments_file);
  return {rows.rows > 0 ? rows.integers("position").back() : 0, rows.count_setting("probe_every")};
}

// One model on its stream.
class Contestant {
 public:
  Contestant(const std::string& name, const fs::path& model, const DemoTask& task,
             const fs::path& folder, ThreadPool& threads)
      : name_(name),
        asked_(task.problems),
        folder_(folder),
        owned_(open_model(model, {})),
        model_(*owned_),
        source_(corpus::open_source(task.corpus)),
        probe_{model_, tokenizer_, {threads}, corpus::math_options(task.problems), 12} {}

  // What it has read before is shown from the records.
  void read_to(int64_t position, int64_t slice) {
    StreamSettings settings;
    settings.tokens = position;
    settings.probe_every = slice;
    settings.probe_problems = questions;
    settings.probe_source = cat("math-chat:", asked_, ", as trained");
    const StreamParts parts{model_,
                            name_,
                            *source_,
                            tokenizer_,
                            probe_.cpu,
                            probe_};
    const StreamOutcome outcome =
        run_stream(parts, settings, folder_, OnExisting::resume, [](const StreamProgress&) {});
    if (!outcome.overflows.empty() && outcome.overflows[0].position <= position)
      overflow_ = to_string(outcome.overflows[0]);
    start_ = recorded(0), now_ = recorded(position);
  }

  // Asked once more where the stream ended between two slices, or before one.
  void ask_at_the_end() {
    state_ = load_state_of(model_, checkpoint_state(folder_, 0), name_, OtherSane::refuse).state;
    if (asked_at_ == state_.position) return;
    const ProbeOutcome outcome = probe_(state_, questions);
    now_.accuracy = double(outcome.correct) / double(outcome.asked);
  }

  std::string line() const {
    return fmt::format(
               "{:<9} loss {:.3f}   state norm {:>9.3g}   largest {:>9.3g}   answers {:>3.0f} %",
               name_, now_.loss, now_.norm, now_.largest, 100 * now_.accuracy) +
           (overflow_.empty() ? "" : "   overflow");
  }
  std::vector<AskedProblem> answers(int64_t count) const { return probe_.ask(state_, count); }
  nlohmann::ordered_json summary() const {
    return {{"accuracy", {{"start", start_.accuracy}, {"end", now_.accuracy}}},
            {"state_norm", {{"start", start_.norm}, {"end", now_.norm}}},
            {"loss", {{"start", start_.loss}, {"end", now_.loss}}},
            {"overflow", overflow_}};
  }
  std::string row() const {
    return fmt::format("{:<9} {:>6.3f} {:>6.3f}   {:>9.3g} {:>9.3g}   {:>5.0f} % {:>5.0f} %", name_,
                       start_.loss, now_.loss, start_.norm, now_.norm, 100 * start_.accuracy,
                       100 * now_.accuracy);
  }

 private:
  struct Moment {
    double loss = 0, norm = 0, largest = 0, accuracy = 0;
  };

  // The last rows up to a position, or the first.
  Moment recorded(int64_t position) {
    const probe::RecordTable segments = probe::read_records(folder_ / segments_file),
                             probes = probe::read_records(folder_ / probes_file);
    const auto row = [&](const probe::RecordTable& table) {
      const std::vector<int64_t>& positions = table.integers("position");
      const auto after = std::ranges::upper_bound(positions, position);
      return size_t(std::max<int64_t>(after - positions.begin(), 1) - 1);
    };
    asked_at_ = probes.integers("position").at(row(probes));
    const auto number = [&](const char* column) { return segments.reals(column).at(row(segments)); };
    return {number("loss"), number("norm"), number("largest"),
            probes.reals("accuracy").at(row(probes))};
  }

  std::string name_, asked_, overflow_;
  fs::path folder_;
  std::unique_ptr<LanguageModel> owned_;
  const LanguageModel& model_;
  ByteTokenizer tokenizer_;
  std::unique_ptr<corpus::Source> source_;
  ProblemProbe probe_;
  SequenceState state_;  // at the end
  Moment start_, now_;
  int64_t asked_at_ = 0;
};

void stream_both(Contestant& baseline, Contestant& sane, int64_t tokens, int64_t slice) {
  const bool terminal = ::isatty(STDOUT_FILENO) != 0;
  for (int64_t position = std::min(slice, tokens);; position = std::min(position + slice, tokens)) {
    baseline.read_to(position, slice);
    sane.read_to(position, slice);
    if (terminal && position > slice) move_up(stdout, 2);
    if (terminal) clear_line(stdout);
    fmt::print("{:>7}  {}\n", position, baseline.line());
    if (terminal) clear_line(stdout);
    fmt::print("         {}\n", sane.line());
    std::fflush(stdout);
    if (position == tokens) break;
  }
  baseline.ask_at_the_end();
  sane.ask_at_the_end();
}

void ask_both(const Contestant& baseline, const Contestant& sane) {
  fmt::print("\nThe same questions to both, after the stream:\n");
  const auto first = baseline.answers(6), second = sane.answers(6);
  const auto shown = [](const AskedProblem& one) {
    std::string text = one.written.substr(0, 24);
    for (char& c : text)
      if (uint8_t(c) < 32 || uint8_t(c) > 126) c = '?';
    return fmt::format("{}{}", text, one.right ? "" : "  (wrong)");
  };
  fmt::print("  {:<12} {:<34} {}\n", "", "baseline", "SANE");
  for (size_t i = 0; i < first.size(); ++i)
    fmt::print("  {:<12} {:<34} {}\n", first[i].question, shown(first[i]), shown(second[i]));
}

void write_report(const fs::path& out) {
  try {
    run_own({"report", (out / "baseline").string(), (out / "sane").string(), "--out",
             (out / "report.html").string(), "--title",
             "A state that explodes, and one that is held"});
  } catch (const Error& error) {
    fmt::print("no report: {}\n", error.what());
  }
}

DemoPair trained_pair(const DemoOptions& options, ThreadPool& threads) {
  const fs::path out = options.out;
  fmt::print(
      "A small model learns sums of digits, with channels that hardly forget, in contexts of 128\n"
      "bytes. SANE with alpha {} is then put on it.\n\n",
      options.alpha);
  DemoPair pair{{}, {}, {cat("math-chat:seed=9,", sums), sums, 524288}, "trained"};
  pair.baseline =
      trained("training   ",
              recipe("layers = 2\nchannels = 64\nhead_size = 32\ndecay_bias_shift = -12\n"
                     "rate_bias_shift = -1.5",
                     out / "baseline-training", 500, 0.004),
              threads);
  pair.sane = trained(
      "fine-tuning",
      recipe(fmt::format("from = '{}'\nsane_alpha = {:.6f}", pair.baseline.string(), options.alpha),
             out / fmt::format("sane-training-alpha-{}", options.alpha), 100, 0.0008),
      threads);
  fmt::print("\n");
  return pair;
}

int run_demo(const DemoOptions& options) {
  if (options.tokens && *options.tokens < smallest_slice)
    fail(Fault::usage, "--tokens: expected at least ", smallest_slice, ", found ", *options.tokens);
  expect_valid({options.alpha, default_sane_chunk});
  const double begin = seconds_now();
  const fs::path out = options.out;
  fs::create_directories(out);
  ThreadPool threads(options.threads);
  std::optional<DemoPair> shipped;
  if (!options.train && options.alpha == 3) shipped = shipped_pair(options.models);
  const DemoPair pair = shipped ? *shipped : trained_pair(options, threads);
  if (shipped)
    fmt::print(
        "{} learned sums and differences in contexts of 512 bytes, with channels that hardly\n"
        "forget; {} is the same one, trained for 300 more steps with SANE.\n",
        pair.baseline.string(), pair.sane.string());
  const EarlierStream first = earlier_stream(out / "baseline"), second = earlier_stream(out / "sane");
  const int64_t earlier = std::max(first.position, second.position);
  const int64_t tokens = std::max(options.tokens.value_or(pair.task.tokens), earlier);
  const int64_t new_slice =
      std::clamp(tokens / 8 / smallest_slice * smallest_slice, smallest_slice, largest_slice);
  const int64_t slice = earlier ? std::max(first.slice, second.slice) : new_slice;
  fmt::print("Both read {} bytes of problems and answers, and are asked some along the way.\n",
             tokens);
  if (earlier)
    fmt::print("An earlier demonstration in {} read {} of them; another --out begins anew.\n",
               out.string(), earlier);
  fmt::print("\n");
  Contestant baseline("baseline", pair.baseline, pair.task, out / "baseline", threads);
  Contestant sane("SANE", pair.sane, pair.task, out / "sane", threads);
  stream_both(baseline, sane, tokens, slice);
  ask_both(baseline, sane);
  fmt::print("\n{:<9} {:^13}   {:^19}   {:^15}\n{:<9} {:>6} {:>6}   {:>9} {:>9}   {:>7} {:>7}\n",
             "", "loss", "state norm", "answers right", "", "start", "end", "start", "end", "start",
             "end");
  fmt::print("{}\n{}\n\n", baseline.row(), sane.row());
  const nlohmann::ordered_json summary{{"tokens", tokens},
                                       {"alpha", options.alpha},
                                       {"models", pair.origin},
                                       {"baseline", baseline.summary()},
                                       {"sane", sane.summary()}};
  replace_file(out / "summary.json", summary.dump(2) + "\n");
  std::fflush(stdout);  // the report is written by a process of its own
  write_report(out);
  fmt::print("summary              {}\n", (out / "summary.json").string());
  fmt::print("time                 {:.0f} s\n", seconds_now() - begin);
  return 0;
}

}  // namespace

const Command demo{
    "demo", "see a state explode, and SANE hold it: a minute or two", [](CLI::App& app) {
      auto options = std::make_shared<DemoOptions>();
      app.add_option("--out", options->out, "folder for models, records, report and summary.json")
          ->capture_default_str();
      app.add_option("--models", options->models,
                     "folder of the two models, if not given that of the checkout; without them, "
                     "or for another --alpha, a small pair "
                     "is trained");
      app.add_flag("--train", options->train, "train a small pair in any case");
      app.add_option(
          "--tokens", options->tokens,
          "bytes that both models read; if not given: 131072, or 524288 by trained ones");
      app.add_option("--alpha", options->alpha, "strength of SANE")->capture_default_str();
      app.add_option("--threads", options->threads, "threads; 0: all processors")
          ->capture_default_str();
      app.footer("Example:\n  deltasane demo --out demo --tokens 262144");
      return [options] { return run_demo(*options); };
    }};

}  // namespace deltasane::cli
