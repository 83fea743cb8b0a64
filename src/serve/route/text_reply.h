// A job whose texts go to a client: as one reply, or as server-sent events while they are written.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "serve/route/route.h"
#include "serve/scheduler.h"
#include "serve/tool/tool.h"
#include "serve/wire/generation_fields.h"

namespace deltasane::serve {

// Tokens, as replies count them.
struct Usage {
  int64_t prompt = 0, cached = 0, written = 0, thoughts = 0;
  Json json() const;  // as completions and chats have it
};

// The fields state, return_state and session: what a text continues from, whether what comes out is
// kept, and what onlookers call it.
struct StateFields {
  std::string id;  // empty: none
  std::shared_ptr<const SequenceState> state;
  std::vector<int32_t> unread;
  bool returns = false;
  std::string session;  // what the client calls its conversation; empty: nothing

  int64_t position() const { return state ? state->position : 0; }
};
StateFields read_state_fields(Service& service, const Call& call, Fields& fields);

// Of a text that ended well: "stop" or "length".
std::string_view finish_reason(Ended ended);

class TextReply : public TextJob, public std::enable_shared_from_this<TextReply> {
 public:
  TextReply(Service& service, const Call& call, GenerationFields wanted, std::string id);

  void on_failure(const Refusal& why) override;
  // One that broke fails the whole request; the first failure is what the client sees.
  void on_end(size_t prompt, GeneratedText text) override;
  void on_done() override;

  void ignore_fields(const std::vector<std::string>& names);  // named in a header

 protected:
  virtual void take_text(size_t prompt, GeneratedText& text) = 0;
  virtual Json reply() = 0;           // all texts have ended
  virtual void end_events() = 0;  // the last events, before [DONE]
  // The choices of an error in a stream, with a finish_reason, where the format has them.
  virtual Json unfinished() const { return Json::object(); }
  // The end of a stream that failed, in the format's own words.
  virtual std::string failure_frames(const Refusal& why);
  virtual std::string_view last_line() const { return "data: [DONE]\n\n"; }

  void send(const Json& event);
  void send_frame(std::string frame);

  // What the request's grammar, biases and stop tokens allow. Throws Refusal: tokens that the model
  // does not have, log probabilities of what was changed.
  void constrain(TextRequest& request, bool with_log_probabilities) const;

  Service& service_;
  const GenerationFields wanted_;
  const std::string id_;
  const int64_t created_;
  // Where the state of the (one) text is kept: its id, when all is done.
  bool keeps_state_ = false;
  std::string state_in_, state_out_;
  Json state_fields() const;  // of both, and the seed

 private:
  void finish();
  std::shared_ptr<Exchange> exchange_;
  Headers headers_;
  bool has_begun_ = false;
  std::optional<Refusal> failure_;
  std::optional<GeneratedText> kept_;
};

// What a grammar, a schema or functions that must be called say about how an answer begins and what it
// may be. Throws Refusal: two of them, or thoughts in front of what must come first.
void constrain_calls(GenerationFields& wanted, const ToolFields& tools, const ChatTemplate& chat,
                     ReplyMode& mode);
// The template's stop texts, and the end of a call where one is all.
std::vector<std::string> stops_of(const ChatTemplate& chat, const ToolFields& tools);
// A stop text that ended a call belongs to it: returns it, and has it read behind the text's state.
std::string take_call_end(const ToolFields& tools, const Tokenizer& tokenizer, GeneratedText& text);

// Queues the job; it is cancelled when its client goes away.
void submit(Service& service, Call& call, const std::shared_ptr<TextReply>& job);

}  // namespace deltasane::serve
