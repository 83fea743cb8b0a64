#include <fmt/format.h>
#include <unistd.h>
#include <CLI/CLI.hpp>
#include <csignal>
#include <nlohmann/json.hpp>

#include "base/json/array_at.h"
#include "base/timing.h"
#include "cli/command.h"
#include "cli/terminal/interrupt.h"
#include "cli/terminal/terminal.h"
#include "cli/duration.h"
#include "cli/open_model.h"
#include "corpus/math/chat.h"
#include "eval/stream/problem_probe.h"
#include "eval/stream/record_rate.h"
#include "eval/stream/stream_folder.h"
#include "eval/stream/stream_run.h"

namespace deltasane::cli {
namespace {

constexpr int64_t longest_probe = 200;

struct StreamOptions {
  ModelFlags model;
  StreamSettings settings;
  std::string corpus, out, probe_corpus;
  std::vector<int64_t> snapshots;
  int64_t probe_tokens = longest_probe;
  bool resume = false, unverified = false, json = false;
};

// One line that fits the terminal and is written over; elsewhere a line now and then.
class StreamDisplay {
 public:
  void show(const StreamProgress& now) {
    const double seconds = seconds_now();
    const bool is_last = now.position == now.tokens;
    if (!is_last && seconds - shown_at_ < (terminal_ ? 0.2 : 10)) return;
    shown_at_ = seconds;
    const double rate = double(now.position - now.began_at) / (seconds - begun_);
    const double left = double(now.tokens - now.position) / rate;
    const double share = double(now.position) / double(now.tokens);
    // What matters most first: a narrow terminal shows as much as fits.
    std::vector<std::string> parts = {fmt::format("{:>5.1f} %", 100 * share),
                                      fmt::format("loss {:.4f}", now.loss),
                                      fmt::format("norm {:.3g}", now.norm),
                                      duration_text(left) + " left",
                                      fmt::format("{} tokens", now.position),
                                      fmt::format("{:.0f} tokens/s", rate * double(now.streams)),
                                      fmt::format("max {:.3g}", now.largest),
                                      fmt::format("all {:.4f}", now.cumulative_loss)};
    share_ = parts.front();
    print(parts, is_last);
  }
  void show_asking(int64_t answered, int64_t count) {
    if (!terminal_ || seconds_now() - shown_at_ < 0.2) return;
    shown_at_ = seconds_now();
    print({share_, fmt::format("asking {} of {}", std::min(answered + 1, count), count)}, false);
  }
  void clear() {
    if (open_line_) clear_line(stderr);
    open_line_ = false;
  }
  void end() {
    if (open_line_) fmt::print(stderr, "\n");
  }

 private:
  void print(const std::vector<std::string>& parts, bool is_last) {
    const size_t room = terminal_ ? size_t(terminal_columns(STDERR_FILENO)) - 1 : 1000;
    std::string line = parts.front();
    for (size_t i = 1; i < parts.size() && line.size() + 2 + parts[i].size() <= room; ++i)
      line += "  " + parts[i];
    if (terminal_) clear_line(stderr);
    fmt::print(stderr, "{}{}", line, terminal_ && !is_last ? "" : "\n");
    open_line_ = terminal_ && !is_last;
  }

  bool terminal_ = ::isatty(STDERR_FILENO) != 0, open_line_ = false;
  double begun_ = seconds_now(), shown_at_ = 0;
  std::string share_ = "  0.0 %";
};

corpus::MathOptions held_out(const std::string& description) {
  const std::string_view kind = "math-chat:";
  if (!description.empty() && !description.starts_with(kind))
    fail(Fault::usage, "--probe-corpus: expected math-chat:..., found '", description, "'");
  corpus::MathOptions problems =
      corpus::math_options(description.empty() ? "" : description.substr(kind.size()));
  problems.split = corpus::Split::held_out;
  return problems;
}

nlohmann::ordered_json json_of(const StreamOutcome& outcome, const StreamOptions& options,
                               int64_t tokens_now) {
  nlohmann::ordered_json json{{"out", options.out},
                              {"tokens", outcome.tokens_read},
                              {"cumulative_loss", outcome.cumulative_loss},
                              {"seconds", outcome.seconds},
                              {"tokens_per_s", double(tokens_now) / outcome.seconds},
                              {"recording_share", outcome.recording_seconds / outcome.seconds},
                              {"overflows", nlohmann::ordered_json::array()}};
  if (outcome.resumed_at) json["resumed_at"] = *outcome.resumed_at;
  for (const StreamOverflow& overflow : outcome.overflows)
    array_at(json, "overflows")
        .push_back({{"stream", overflow.stream},
                    {"position", overflow.position},
                    {"layer", overflow.layer},
                    {"head", overflow.head},
                    {"largest", overflow.largest}});
  return json;
}

void print_record_size(const StreamSettings& settings, const LanguageModel& model) {
  const int64_t bytes = record_bytes(settings.tokens, settings.segment, {settings.heads_every},
                                     int64_t(model.state_layout()->heads().size()));
  fmt::print(stderr, "records need {:.3g} MB, plus snapshots and checkpoints\n",
             1e-6 * double(settings.streams * bytes));
}

// The problems of all streams that were asked at one position.
struct ProbeSummary {
  int64_t position = 0, asked = 0, correct = 0;
};

std::vector<ProbeSummary> read_probes(const fs::path& folder) {
  const probe::RecordTable table = probe::read_records(folder / probes_file);
  std::map<int64_t, ProbeSummary> by_position;
  for (size_t i = 0; i < size_t(table.rows); ++i) {
    ProbeSummary& one = by_position[table.integers("position")[i]];
    one.position = table.integers("position")[i];
    one.asked += table.integers("asked")[i];
    one.correct += table.integers("correct")[i];
  }
  std::vector<ProbeSummary> all;
  for (const auto& [position, one] : by_position) all.push_back(one);
  return all;
}

// A path as a shell takes it.
std::string shell_word(const std::string& path) {
  const auto is_plain = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
           std::string_view("/._-+=:,@%").find(c) != std::string_view::npos;
  };
  if (!path.empty() && std::ranges::all_of(path, is_plain)) return path;
  std::string quoted = "'";
  for (const char c : path) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

std::string text_of(const ProbeSummary& probe) {
  return fmt::format("{} of {}", probe.correct, probe.asked);
}

int stream_tokens(StreamOptions& options) {
  if (!options.snapshots.empty()) options.settings.snapshots = options.snapshots;
  if (options.settings.probes() && options.settings.probe_problems == 0)
    options.settings.probe_problems = 32;
  const corpus::MathOptions problems = held_out(options.probe_corpus);
  if (options.probe_tokens < 1)
    fail(Fault::usage, "--probe-tokens: expected 1 or more, found ", options.probe_tokens);
  if (options.settings.probes()) {
    options.settings.probe_source = "math-chat:" + corpus::describe(problems);
    if (options.probe_tokens != longest_probe)
      options.settings.probe_source += cat(", answers of ", options.probe_tokens, " tokens");
  }
  OpenModel open(options.model);
  if (options.settings.adaptive && open.model.sane().kind == SaneKind::none)
    fail(Fault::usage, "--sane-adaptive: expected a model with SANE, or --sane-alpha, found none");
  if (options.settings.adaptive && open.model.sane().alpha < AdaptiveSane::lowest_alpha)
    fail(Fault::usage, "--sane-adaptive: expected to begin at an alpha of ",
         AdaptiveSane::lowest_alpha, " or more, found ", open.model.sane().alpha);
  const auto tokenizer =
      open_tokenizer(options.model.tokenizer, open.model.checkpoint(), options.model.path);
  const auto source = corpus::open_source(options.corpus);
  StreamDisplay display;
  ProblemProbe probe{open.model, *tokenizer, open.cpu(), problems, options.probe_tokens};
  probe.told = [&](int64_t answered, int64_t count) { display.show_asking(answered, count); };
  const StreamParts parts{
      open.model, open.name,
      *source,    *tokenizer,
      open.cpu(), std::move(probe),
      [] { return interrupts() > 0; }};
  foresee_states(open.model, options.settings.tokens, options.settings.streams);
  int64_t first = -1, last = 0;
  count_interrupts({SIGINT, SIGTERM});  // the segment that is read is finished and kept
  const OnExisting existing = !options.resume       ? OnExisting::refuse
                              : options.unverified ? OnExisting::resume_unverified
                                                   : OnExisting::resume;
  const StreamOutcome outcome =
      run_stream(parts, options.settings, options.out, existing, [&](const StreamProgress& now) {
        if (first < 0) {
          first = now.began_at;
          display.clear();
          if (options.resume)
            fmt::print(stderr, "{}\n",
                       first > 0 ? fmt::format("resumes at position {} of {}", first, now.tokens)
                                 : cat(options.out, ": no checkpoint yet; begins at position 0"));
          print_record_size(options.settings, open.model);
        }
        last = now.position;
        display.show(now);
      });
  display.end();
  const int64_t tokens_now = (last - std::max<int64_t>(first, 0)) * options.settings.streams;
  const int code = outcome.stopped ? interrupted_code : 0;
  const std::vector<ProbeSummary> probes = read_probes(options.out);
  if (options.json) {
    nlohmann::ordered_json json = json_of(outcome, options, tokens_now);
    json["stopped"] = outcome.stopped;
    for (const ProbeSummary& p : probes)
      array_at(json, "probes")
          .push_back({{"position", p.position}, {"asked", p.asked}, {"correct", p.correct}});
    fmt::print("{}\n", json.dump(2));
    return code;
  }
  if (outcome.resumed_at) fmt::print("resumed at           {}\n", *outcome.resumed_at);
  fmt::print("tokens read          {}\n", outcome.tokens_read);
  for (size_t i = 0; i < outcome.cumulative_loss.size(); ++i)
    fmt::print("stream {:<13} loss {:.6f}, perplexity {:.4f}\n", i, outcome.cumulative_loss[i],
               std::exp(outcome.cumulative_loss[i]));
  if (tokens_now > 0)
    fmt::print("speed                {:.0f} tokens/s; recording took {:.2f} % of the time\n",
               double(tokens_now) / outcome.seconds,
               100 * outcome.recording_seconds / outcome.seconds);
  for (const StreamOverflow& overflow : outcome.overflows)
    fmt::print("overflow             {}\n", to_string(overflow));
  if (!probes.empty())
    fmt::print("answers              {} right at position {}, {} at {}\n", text_of(probes.front()),
               probes.front().position, text_of(probes.back()), probes.back().position);
  if (outcome.stopped)
    fmt::print("interrupted          at position {}; continue with --resume\n", outcome.position);
  const std::string word = shell_word(options.out);
  fmt::print("records              {}: see `deltasane diagnose {}` and `deltasane report {}`\n",
             options.out, word, word);
  return code;
}

}  // namespace

const Command stream{
    "stream", "read an endless text with one state, and record what happens", [](CLI::App& app) {
      auto options = std::make_shared<StreamOptions>();
      StreamSettings& settings = options->settings;
      options->model.describe(app);
      app.add_option("--corpus", options->corpus, "what to read, such as math-chat:seed=1")
          ->required();
      app.add_option("--tokens", settings.tokens, "how many tokens of each stream to read")
          ->required();
      app.add_option("--out", options->out, "a folder for the records")->required();
      app.add_option("--segment", settings.segment, "tokens between two records of loss and norm")
          ->capture_default_str();
      app.add_option("--heads-every", settings.heads_every,
                     "tokens between two records of the heads; if not given: every segment up to "
                     "256, then 128 for each doubling");
      app.add_option("--streams", settings.streams, "independent streams")->capture_default_str();
      app.add_option("--snapshots", options->snapshots,
                     "positions at which to keep the whole state; if not given: 4096, 65536, "
                     "524288, 1048576 and each doubling")
          ->delimiter(',');
      app.add_option("--probe-every", settings.probe_every,
                     "ask problems from a copy of the state every so many tokens");
      app.add_option("--probe-at", settings.probe_at,
                     "ask at these positions; 0: before the first token")
          ->delimiter(',');
      app.add_option("--probe-problems", settings.probe_problems, "how many (32)");
      app.add_option("--probe-corpus", options->probe_corpus,
                     "which, such as math-chat:level=1,style=sentence; always from the held-out split");
      app.add_option("--probe-tokens", options->probe_tokens, "tokens of an answer at most")
          ->capture_default_str();
      app.add_flag("--sane-adaptive", settings.adaptive,
                   "lower a head's alpha while its norm is above twice its early value");
      app.add_option("--checkpoint-every", settings.checkpoint_every,
                     "tokens between two checkpoints")
          ->capture_default_str();
      app.add_flag("--resume", options->resume, "resume from the last checkpoint in the folder");
      app.add_flag("--resume-unverified", options->unverified,
                   "with --resume: also where the corpus or the vocabulary has changed, or the "
                   "checkpoint is of a version without checksums");
      app.add_flag("--json", options->json, "print JSON");
      app.footer(
          "Examples:\n"
          "  deltasane stream model.pth --corpus math-chat:seed=1 --tokens 10000000 --out base\n"
          "  deltasane stream model.pth --corpus math-chat:seed=1 --tokens 10000000 --out base "
          "--resume\n"
          "  deltasane stream model.pth --sane-alpha 3 --corpus math-chat:seed=1 --tokens "
          "10000000 --out sane");
      return [options] { return stream_tokens(*options); };
    }};

}  // namespace deltasane::cli
