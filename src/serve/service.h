// What the routes share: the model, its tokenizer and chat template, the scheduler, the settings.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "serve/keys.h"
#include "serve/metrics.h"
#include "serve/scheduler.h"
#include "serve/state/conversation_store.h"
#include "serve/state/state_store.h"
#include "text/chat/chat_template.h"
#include "text/grammar/grammar_matcher.h"

namespace deltasane::serve {

struct ServeSettings {
  std::string model_name;  // what clients call it
  std::string version;     // of the program
  int64_t created = 0;     // seconds since 1970: when the server began
  SamplerSettings sampling;  // where a request says nothing
  ReplyMode reply_mode = ReplyMode::plain;
  int64_t max_output = 8192;  // tokens of an answer, where a request says nothing
  int64_t max_completion = 16;  // of a completion, as OpenAI has it
  std::vector<std::string> hosts;  // names in lower case that clients may call it by; empty: any
  std::vector<std::string> origins;  // of web pages that may use it
  size_t body_bytes = HttpLimits().body_bytes;
  size_t upload_piece_bytes = 64 << 10;  // of a text without end, that is read at a time
  SchedulerSettings scheduler;
  StateStoreSettings states;
};

// Fails where the tokenizer has not the special tokens of the template, or the template not the mode.
std::unique_ptr<ChatTemplate> expect_fitting(std::unique_ptr<ChatTemplate> chat,
                                             const Tokenizer& tokenizer, ReplyMode mode);

struct Service {
  Service(const LanguageModel& with_model, const Tokenizer& with_tokenizer,
          std::unique_ptr<ChatTemplate> with_chat, const kernel::Cpu& cpu, ServeSettings wanted,
          Keys with_keys)
      : model(with_model),
        tokenizer(with_tokenizer),
        chat(expect_fitting(std::move(with_chat), tokenizer, wanted.reply_mode)),
        settings(std::move(wanted)),
        keys(std::move(with_keys)),
        states(model, settings.model_name, settings.states, metrics),
        conversations(settings.states.folder),
        scheduler(model, tokenizer, cpu, settings.scheduler, metrics, &board) {}

  const LanguageModel& model;
  const Tokenizer& tokenizer;
  const std::unique_ptr<ChatTemplate> chat;  // null: the model has none that is known
  const ServeSettings settings;
  const Keys keys;
  // For grammars; made when the first is used.
  std::shared_ptr<const SortedVocabulary> sorted_vocabulary() {
    std::call_once(has_sorted_, [this] {
      sorted_ = std::make_shared<const SortedVocabulary>(tokenizer, model.vocabulary());
    });
    return sorted_;
  }

  Metrics metrics;
  std::atomic<bool> is_draining{false};
  // These have threads, which use what is above them.
  SessionBoard board{metrics};
  StateStore states;
  ConversationStore conversations;
  Scheduler scheduler;

 private:
  std::once_flag has_sorted_;
  std::shared_ptr<const SortedVocabulary> sorted_;
};

}  // namespace deltasane::serve
