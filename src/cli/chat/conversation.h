// A conversation with a model: its state, and the states from before its last turns, so that turns
// can be taken back.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "infer/engine/engine.h"
#include "text/chat/chat_template.h"

namespace deltasane::cli {

struct ConversationSettings {
  SamplerSettings sampling{};
  OnOverflow on_overflow = OnOverflow::stop;
  OtherSane other_sane = OtherSane::refuse;  // of states that are loaded
  ReplyMode mode = ReplyMode::plain;
  std::string system{};   // the message of the system, which a conversation begins with
  int64_t tokens = 1024;  // of one answer, at most
  uint64_t state_memory = uint64_t{1}
                          << 30;  // bytes of states from before turns; one is always kept
};

// What an answer is shown by, while it is written.
struct AnswerEvents {
  std::function<void(std::string_view piece)> on_text = [](std::string_view) {};
  std::function<void(const std::string& message)> on_reset = [](const std::string&) {};
  std::function<bool()> is_stopped = [] { return false; };  // asked before each step
};

struct Answer {
  std::string text;
  Ended ended = Ended::token_limit;
  int64_t prompt_tokens = 0, tokens = 0;
  double prompt_seconds = 0, seconds = 0;
};

class Conversation {
 public:
  Conversation(const LanguageModel& model, const Tokenizer& tokenizer,
               const ChatTemplate& chat_template, const kernel::Cpu& cpu,
               ConversationSettings settings);

  // None: it was stopped before the answer began, and the question is forgotten. An error leaves
  // the conversation as it was.
  std::optional<Answer> ask(const std::string& question, const AnswerEvents& events);
  // Takes the last turn back, and returns its question. None: no earlier state is kept.
  std::optional<std::string> undo();
  // Takes the last turn back and asks again, with other random numbers.
  std::optional<Answer> retry(const AnswerEvents& events);
  void reset();  // forgets all but the settings, of which the system message is one

  // A state file; the state of a conversation, or a tuned one.
  void save(const fs::path& path, const std::string& model_name);
  void load(const fs::path& path, const std::string& model_name);

  void set_seed(uint64_t seed);
  uint64_t seed() const { return now_.sampler.state().seed; }
  void set_system(std::string text);  // forgets the conversation, which begins with it
  const ConversationSettings& settings() const { return settings_; }
  void set_tokens(int64_t tokens) { settings_.tokens = tokens; }
  const SequenceState& state() const { return now_.state; }
  size_t turns_kept() const { return turns_.size(); }

 private:
  struct Moment {
    SequenceState state;
    std::vector<int32_t> unread{};  // tokens of the text that the state has not read
    Sampler sampler;
    bool begun = false;

    Moment clone() const { return {state.clone(), unread, sampler, begun}; }
  };
  struct Turn {
    std::string question;
    Moment before;
  };

  Moment fresh() const;
  std::vector<int32_t> prompt_of(const std::string& question) const;
  void keep(Turn turn);

  const LanguageModel& model_;
  const Tokenizer& tokenizer_;
  const ChatTemplate& template_;
  kernel::Cpu cpu_;
  ConversationSettings settings_;
  Moment now_;
  std::deque<Turn> turns_;  // the latest last
  uint64_t retries_ = 0;
};

}  // namespace deltasane::cli
