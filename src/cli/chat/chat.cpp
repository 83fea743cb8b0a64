#include <fmt/format.h>
#include <unistd.h>
#include <CLI/CLI.hpp>
#include <csignal>
#include <iostream>
#include <random>

#include "cli/chat/answer_display.h"
#include "cli/chat/chat_commands.h"
#include "cli/chat/chat_history.h"
#include "cli/command.h"
#include "cli/open_model.h"
#include "cli/terminal/interrupt.h"
#include "cli/terminal/terminal_input.h"
#include "cli/text/chat_flags.h"
#include "cli/text/sampling_flags.h"

namespace deltasane::cli {
namespace {

struct ChatOptions {
  ModelFlags model;
  SamplingFlags sampling;
  ChatFlags chat;
  std::string system, state_in, history = chat_history_path();
  int64_t tokens = 1024;
  bool other_sane = false;
};

ConversationSettings settings_of(const ChatOptions& options) {
  if (options.tokens < 1)
    fail(Fault::usage, "--tokens: expected 1 or more, found ", options.tokens);
  ConversationSettings settings{.sampling = options.sampling.settings,
                                .on_overflow = options.sampling.on_overflow(),
                                .other_sane =
                                    options.other_sane ? OtherSane::accept : OtherSane::refuse,
                                .mode = options.chat.reply_mode(),
                                .system = options.system,
                                .tokens = options.tokens};
  if (!options.sampling.has_seed()) settings.sampling.seed = std::random_device()();
  return settings;
}

// Lines of a terminal that is drawn on, of one that is not, or of a file.
class ChatLines {
 public:
  explicit ChatLines(const ChatOptions& options)
      : history_(TerminalInput::is_possible() ? options.history : std::string()) {
    if (!TerminalInput::is_possible()) return;
    input_.emplace();
    input_->history = history_.entries();
    input_->completions = chat_command_names();
  }

  bool on_terminal() const { return on_terminal_; }

  // None: the conversation is over.
  std::optional<std::string> next() {
    if (!input_) {
      if (on_terminal_) std::cout << "\nUser: " << std::flush;
      std::string line;
      if (std::getline(std::cin, line)) return line;
      return std::nullopt;
    }
    for (;;) {
      std::cout << std::endl;
      TerminalInput::Line line = input_->read("User: ");
      const bool is_second = was_interrupted_ && line.text.empty();
      was_interrupted_ = line.end == TerminalInput::Line::End::interrupted;
      forget_interrupts();
      if (line.end == TerminalInput::Line::End::ended) return std::nullopt;
      if (!was_interrupted_) {
        if (!line.text.empty()) history_.add(line.text);
        input_->history = history_.entries();
        return std::move(line.text);
      }
      if (is_second) return std::nullopt;
      std::cout << "(Ctrl-C again, or Ctrl-D, leaves)" << std::endl;
    }
  }

  // While an answer is written, Ctrl-C stops it and nothing more.
  void begin_answer() {
    forget_interrupts();
    if (on_terminal_) count_interrupts({SIGINT});
  }
  void end_answer() {
    was_interrupted_ = interrupts() > 0;
    forget_interrupts();
    if (!input_) std::signal(SIGINT, SIG_DFL);
  }

 private:
  ChatHistory history_;
  std::optional<TerminalInput> input_;
  bool on_terminal_ = ::isatty(STDIN_FILENO) != 0;
  bool was_interrupted_ = false;
};

class Chat {
 public:
  explicit Chat(const ChatOptions& options)
      : open_(options.model),
        tokenizer_(
            open_tokenizer(options.model.tokenizer, open_.model.checkpoint(), options.model.path)),
        template_(options.chat.open(*tokenizer_)),
        conversation_(open_.model, *tokenizer_, *template_, open_.cpu(), settings_of(options)),
        session_{conversation_, open_.name, open_.model.sane()},
        lines_(options) {
    if (!options.state_in.empty()) conversation_.load(options.state_in, open_.name);
    session_.retry = [this] {
      answer([this](const AnswerEvents& events) { return conversation_.retry(events); });
    };
  }

  void run() {
    if (lines_.on_terminal()) {
      count_interrupts({SIGINT});
      fmt::print("(/help lists commands)\n");
    }
    while (const auto line = lines_.next()) {
      try {
        if (line->empty()) continue;
        if (is_chat_command(*line)) {
          if (run_chat_command(*line, session_) == Afterwards::leave) return;
        } else {
          answer([&](const AnswerEvents& events) { return conversation_.ask(*line, events); });
        }
      } catch (const Error& error) {
        // A wrong file name or a broken state must not end the conversation.
        if (!lines_.on_terminal()) throw;
        fmt::print(stderr, "deltasane: {}\n", error.what());
      }
    }
  }

 private:
  template <class Ask>
  void answer(const Ask& ask) {
    AnswerDisplay display(::isatty(STDOUT_FILENO) != 0,
                          template_->reply_beginning(conversation_.settings().mode));
    AnswerEvents events;
    events.on_text = [&](std::string_view piece) { display.add(piece); };
    events.on_reset = [](const std::string& message) { fmt::print(stderr, "{}\n", message); };
    events.is_stopped = [] { return interrupts() > 0; };
    lines_.begin_answer();
    std::optional<Answer> found;
    try {
      found = ask(events);
    } catch (...) {
      lines_.end_answer();
      throw;
    }
    lines_.end_answer();
    if (!found) return fmt::print("(stopped before the answer began; the question is forgotten)\n");
    display.end(*found);
    session_.last = std::move(*found);
  }

  OpenModel open_;
  std::unique_ptr<Tokenizer> tokenizer_;
  std::unique_ptr<ChatTemplate> template_;
  Conversation conversation_;
  ChatSession session_;
  ChatLines lines_;
};

}  // namespace

const Command chat{
    "chat", "talk with a model", [](CLI::App& app) {
      auto options = std::make_shared<ChatOptions>();
      options->model.describe(app);
      app.add_option("--system", options->system, "system message");
      options->chat.describe(app);
      app.add_option("-n,--tokens", options->tokens, "tokens of one answer at most")
          ->capture_default_str();
      app.add_option("--state-in", options->state_in,
                     "begin with this state: one that was saved, or a tuned one (.pth)");
      app.add_flag("--accept-other-sane", options->other_sane,
                   "take states that were made with another SANE setting");
      options->sampling.describe(app);
      app.get_option("--seed")
          ->description("the same seed draws the same tokens; a fresh one if not given")
          ->default_str("");
      app.add_option("--history", options->history,
                     "a file with the lines typed before; '' keeps none. If not given: "
                     "deltasane/chat_history in $XDG_STATE_HOME or ~/.local/state");
      app.footer("In the conversation:\n" + chat_command_help() +
                 "Example:\n  deltasane chat model.gguf --mode think");
      return [options] {
        Chat(*options).run();
        return 0;
      };
    }};

}  // namespace deltasane::cli
