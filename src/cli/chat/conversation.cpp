#include "cli/chat/conversation.h"

#include <utility>

#include "base/timing.h"
#include "cli/open_model.h"
#include "cli/version.h"
#include "text/utf8.h"

namespace deltasane::cli {

Conversation::Conversation(const LanguageModel& model, const Tokenizer& tokenizer,
                           const ChatTemplate& chat_template, const kernel::Cpu& cpu,
                           ConversationSettings settings)
    : model_(model),
      tokenizer_(tokenizer),
      template_(chat_template),
      cpu_(cpu),
      settings_(std::move(settings)),
      now_(fresh()) {}

Conversation::Moment Conversation::fresh() const {
  return {model_.fresh_state(), {}, Sampler(settings_.sampling), false};
}

std::vector<int32_t> Conversation::prompt_of(const std::string& question) const {
  std::vector<int32_t> prompt = now_.unread;
  if (now_.begun) {
    template_.append_next_turn(question, settings_.mode, tokenizer_, prompt);
    return prompt;
  }
  std::vector<Message> messages;
  if (!settings_.system.empty()) messages.push_back({Role::system, settings_.system});
  messages.push_back({Role::user, question});
  template_.append_prompt(messages, settings_.mode, tokenizer_, prompt);
  return prompt;
}

std::optional<Answer> Conversation::ask(const std::string& question, const AnswerEvents& events) {
  if (!valid_utf8(question)) fail(Fault::usage, "chat: expected UTF-8 text, found other bytes");
  TextRequest request{0, now_.state.clone(), prompt_of(question), {now_.sampler}};
  request.keeps_before_stop = true;
  Answer answer;
  answer.prompt_tokens = int64_t(request.prompt.size());
  Engine engine(model_, tokenizer_, cpu_,
                {.stops = template_.stops(),
                 .tokens = settings_.tokens,
                 .on_overflow = settings_.on_overflow});
  std::optional<Moment> after;
  double read = 0;
  const double begin = seconds_now();
  engine.on_reset = events.on_reset;
  engine.on_prompt_read = [&](uint64_t, const LogProbabilities&) { read = seconds_now(); };
  engine.on_token = [&](const WrittenToken& written) { events.on_text(written.piece); };
  engine.on_end = [&](GeneratedText found) {
    answer.text = std::move(found.text);
    answer.ended = found.ended;
    answer.tokens = found.tokens;
    after = {std::move(found.state), std::move(found.unread), std::move(found.sampler), true};
  };
  engine.submit(std::move(request));
  do {
    if (events.is_stopped()) engine.cancel();
  } while (engine.step());
  if (!after) return std::nullopt;
  answer.prompt_seconds = read - begin;
  answer.seconds = seconds_now() - read;
  keep({question, std::exchange(now_, std::move(*after))});
  return answer;
}

void Conversation::keep(Turn turn) {
  turns_.push_back(std::move(turn));
  uint64_t bytes = 0;
  size_t fits = 0;
  while (fits < turns_.size()) {
    bytes += model_.state_bytes(turns_[turns_.size() - 1 - fits].before.state.position);
    if (fits > 0 && bytes > settings_.state_memory) break;
    ++fits;
  }
  turns_.erase(turns_.begin(), turns_.end() - int64_t(fits));
}

std::optional<std::string> Conversation::undo() {
  if (turns_.empty()) return std::nullopt;
  Turn last = std::move(turns_.back());
  turns_.pop_back();
  now_ = std::move(last.before);
  return std::move(last.question);
}

std::optional<Answer> Conversation::retry(const AnswerEvents& events) {
  if (turns_.empty()) return std::nullopt;
  // Only an answer takes the place of the one before.
  Moment answered = now_.clone();
  Turn last{turns_.back().question, turns_.back().before.clone()};
  undo();
  SamplerState other = now_.sampler.state();
  other.stream = ++retries_;
  now_.sampler.restore(std::move(other));
  const auto put_back = [&] {
    now_ = std::move(answered);
    keep(std::move(last));
  };
  try {
    std::optional<Answer> found = ask(last.question, events);
    if (!found) put_back();
    return found;
  } catch (...) {
    put_back();
    throw;
  }
}

void Conversation::reset() {
  const SamplerState sampler = now_.sampler.state();
  now_ = fresh();
  now_.sampler.restore({sampler.seed, sampler.stream, sampler.draws, {}});
  turns_.clear();
}

void Conversation::set_seed(uint64_t seed) {
  settings_.sampling.seed = seed;
  now_.sampler.restore({seed, 0, 0, now_.sampler.state().counts});
  retries_ = 0;
}

void Conversation::set_system(std::string text) {
  settings_.system = std::move(text);
  reset();
}

void Conversation::save(const fs::path& path, const std::string& model_name) {
  if (now_.unread.size() > 1) {  // a file has one token that was not read
    Sequence sequence(model_, cpu_, settings_.on_overflow, now_.state.clone());
    sequence.read({now_.unread.data(), now_.unread.size() - 1});
    now_.state = sequence.take_state();
    now_.unread = {now_.unread.back()};
  }
  StateStamp stamp;
  stamp.creator = version_text().substr(0, 256);
  if (!now_.unread.empty()) stamp.last_token = now_.unread.front();
  save_state_of(model_, path, now_.state, model_name, stamp);
}

void Conversation::load(const fs::path& path, const std::string& model_name) {
  SavedState saved = open_state(model_, path, model_name, settings_.other_sane);
  turns_.clear();
  now_.state = std::move(saved.state);
  now_.unread.clear();
  if (saved.stamp.last_token) now_.unread = {*saved.stamp.last_token};
  now_.begun = now_.state.position > 0;  // a tuned state has read nothing
}

}  // namespace deltasane::cli
