#include <fmt/format.h>
#include <unistd.h>
#include <CLI/CLI.hpp>
#include <iostream>

#include "cli/command.h"
#include "cli/open_model.h"
#include "cli/text/chat_flags.h"
#include "cli/text/sampling_flags.h"
#include "cli/version.h"
#include "text/chat/world_chat.h"
#include "infer/engine/engine.h"
#include "text/utf8.h"

namespace deltasane::cli {
namespace {

struct ChatOptions {
  ModelFlags model;
  SamplingFlags sampling;
  ChatFlags chat;
  std::string system, state_in;
  int64_t tokens = 1024;
};

class Conversation {
 public:
  explicit Conversation(const ChatOptions& options)
      : options_(options),
        open_(options.model),
        tokenizer_(
            open_tokenizer(options.model.tokenizer, open_.model.checkpoint(), options.model.path)),
        template_(options.chat.open(*tokenizer_)),
        state_(open_.model.fresh_state()),
        sampler_(options.sampling.settings),
        mode_(options.chat.reply_mode()) {
    if (!options.state_in.empty()) load(options.state_in);
  }

  // False: the conversation is over.
  bool take(const std::string& line) {
    if (line.empty()) return true;
    if (line[0] != '/') return answer(line), true;
    const size_t space = line.find(' ');
    const std::string word = line.substr(0, space);
    const std::string rest = space == std::string::npos ? "" : clean_text(line.substr(space));
    if (word == "/quit") return false;
    if (word == "/reset") {
      state_ = open_.model.fresh_state();
      unread_.reset();
      begun_ = false;
      fmt::print("(forgotten)\n");
    } else if (word == "/state") {
      const StateScan scan = scan_state(state_);
      fmt::print("({} tokens read, largest |S| {:.4g}, {})\n", state_.position,
                 scan.largest, to_string(open_.model.sane()));
    } else if (word == "/save" && !rest.empty()) {
      StateStamp stamp;
      stamp.creator = version_text().substr(0, 256);
      stamp.last_token = unread_;
      save_state_of(open_.model, rest, state_, open_.name, stamp);
      fmt::print("(kept in {})\n", rest);
    } else if (word == "/load" && !rest.empty()) {
      load(rest);
      fmt::print("({} tokens remembered)\n", state_.position);
    } else {
      fmt::print("(/save FILE, /load FILE, /reset, /state, /quit)\n");
    }
    return true;
  }

 private:
  void load(const std::string& path) {
    SavedState saved = load_state_of(open_.model, path, open_.name, OtherSane::refuse);
    state_ = std::move(saved.state);
    unread_ = saved.stamp.last_token;
    begun_ = state_.position > 0;  // a tuned state has read nothing
  }

  void answer(const std::string& line) {
    if (!valid_utf8(line)) fail(Fault::usage, "chat: expected UTF-8 text, found other bytes");
    TextRequest request{0, state_.clone(), {}, {sampler_}};
    if (unread_) request.prompt.push_back(*unread_);
    if (begun_) {
      template_->append_next_turn(line, mode_, *tokenizer_, request.prompt);
    } else {
      std::vector<Message> messages;
      if (!options_.system.empty()) messages.push_back({Role::system, options_.system});
      messages.push_back({Role::user, line});
      template_->append_prompt(messages, mode_, *tokenizer_, request.prompt);
    }
    begun_ = true;
    std::cout << template_->reply_beginning(mode_);
    Engine engine(open_.model, *tokenizer_, open_.cpu(),
                  {.stops = template_->stops(),
                   .tokens = options_.tokens,
                   .on_overflow = options_.sampling.on_overflow()});
    engine.on_reset = [](const std::string& message) { fmt::print(stderr, "{}\n", message); };
    engine.on_token = [](const WrittenToken& written) { std::cout << written.piece << std::flush; };
    engine.on_end = [this](GeneratedText reply) { take(std::move(reply)); };
    engine.submit(std::move(request));
    while (engine.step()) {
    }
    std::cout << std::endl;
  }

  void take(GeneratedText reply) {
    state_ = std::move(reply.state);
    sampler_ = std::move(reply.sampler);
    // The end of a reply is not part of it; where it was cut, its last token is.
    unread_.reset();
    if (reply.ended == Ended::token_limit) unread_ = reply.pending;
  }

  const ChatOptions& options_;
  OpenModel open_;
  std::unique_ptr<Tokenizer> tokenizer_;
  std::unique_ptr<ChatTemplate> template_;
  SequenceState state_;
  std::optional<int32_t> unread_;  // sampled, and to be read first
  Sampler sampler_;
  ReplyMode mode_;
  bool begun_ = false;
};

int run_chat(const ChatOptions& options) {
  Conversation conversation(options);
  const bool terminal = ::isatty(STDIN_FILENO) != 0;
  if (terminal) fmt::print("(/save FILE, /load FILE, /reset, /state, /quit)\n");
  for (std::string line;;) {
    if (terminal) std::cout << "\nUser: " << std::flush;
    if (!std::getline(std::cin, line)) return 0;
    try {
      if (!conversation.take(line)) return 0;
    } catch (const Error& error) {
      // A wrong file name or a broken state must not end the conversation.
      if (!terminal) throw;
      fmt::print(stderr, "deltasane: {}\n", error.what());
    }
  }
}

}  // namespace

const Command chat{
    "chat", "talk with a model", [](CLI::App& app) {
      auto options = std::make_shared<ChatOptions>();
      options->model.describe(app);
      app.add_option("--system", options->system, "what the model is told first");
      options->chat.describe(app);
      app.add_option("--tokens", options->tokens, "tokens of one answer at most")
          ->capture_default_str();
      app.add_option("--state-in", options->state_in,
                     "begin with this state: one that was saved, or a tuned one (.pth)");
      options->sampling.describe(app);
      app.footer(
          "In the conversation: /save FILE, /load FILE, /reset, /state, /quit.\n"
          "Example:\n  deltasane chat model.gguf --mode think");
      return [options] { return run_chat(*options); };
    }};

}  // namespace deltasane::cli
