#include "serve/route/text_reply.h"

#include <ctime>

#include "serve/tool/tool_grammar.h"
#include "serve/tool/tool_reader.h"

namespace deltasane::serve {

Json Usage::json() const {
  return {{"prompt_tokens", prompt},
          {"completion_tokens", written},
          {"total_tokens", prompt + written},
          {"prompt_tokens_details", {{"cached_tokens", cached}}},
          {"completion_tokens_details", {{"reasoning_tokens", thoughts}}}};
}

namespace {

// What the client calls this conversation; empty: nothing, or not a plain name.
std::string session_name(const HttpRequest& request, Fields& fields) {
  const std::string field = fields.text("session").value_or("");
  for (const std::string_view name :
       {std::string_view(field), request.header("x-session-id"),
        request.header("x-openwebui-chat-id")})
    if (is_plain_name(name)) return std::string(name);
  return {};
}

}  // namespace

StateFields read_state_fields(Service& service, const Call& call, Fields& fields) {
  StateFields found;
  found.id = fields.text("state").value_or("");
  found.returns = fields.flag("return_state").value_or(false);
  found.session = session_name(call.request, fields);
  if (found.id.empty()) return found;
  KeptState kept = service.states.find(call.owner, found.id);
  found.state = std::move(kept.state), found.unread = std::move(kept.unread);
  return found;
}

std::string_view finish_reason(Ended ended) {
  return ended == Ended::token_limit ? "length" : "stop";
}

TextReply::TextReply(Service& service, const Call& call, GenerationFields wanted, std::string id)
    : service_(service),
      wanted_(std::move(wanted)),
      id_(std::move(id)),
      created_(std::time(nullptr)),
      exchange_(call.exchange) {
  owner = call.owner;
  session = id_;
}

void TextReply::constrain(TextRequest& request, bool with_log_probabilities) const {
  const auto expect_token = [&](int32_t token, const char* field) {
    if (token >= service_.model.vocabulary())
      refuse_field(field, cat("expected ids below ", service_.model.vocabulary(), ", found ", token));
  };
  for (const int32_t token : wanted_.stop_tokens) expect_token(token, "stop_token_ids");
  for (const TokenBias& one : wanted_.biases) expect_token(one.token, "logit_bias");
  if (with_log_probabilities && (wanted_.grammar || !wanted_.biases.empty()))
    refuse_field("logprobs", "expected none with a grammar, a schema or logit_bias", "unsupported");
  request.biases = wanted_.biases;
  if (wanted_.grammar)
    request.constraint.emplace(wanted_.grammar, service_.sorted_vocabulary());
}

void TextReply::ignore_fields(const std::vector<std::string>& names) {
  if (const std::string list = header_list(names); !list.empty())
    headers_.emplace_back("x-deltasane-ignored", list);
}

void TextReply::send_frame(std::string frame) {
  if (failure_) return;
  if (!std::exchange(has_begun_, true))
    exchange_->begin_stream({200, "text/event-stream; charset=utf-8", {}, headers_});
  exchange_->write(std::move(frame));
}

void TextReply::send(const Json& event) { send_frame(cat("data: ", dump(event), "\n\n")); }

void TextReply::on_end(size_t prompt, GeneratedText text) {
  if (text.ended == Ended::overflow) {
    const StateScan scan = scan_state(text.state);
    const int64_t position = text.state.position - 1;
    failure_.emplace(500, "state_overflow",
                     scan.not_finite ? overflow_message(*scan.not_finite, position)
                                     : cat("logits: expected finite numbers, found others after "
                                           "position ", position));
    return;
  }
  if (text.ended == Ended::cancelled) return;
  take_text(prompt, text);
  if (keeps_state_) kept_.emplace(std::move(text));
}

Json TextReply::state_fields() const {
  Json fields{{"seed", wanted_.sampling.seed}};
  if (!state_in_.empty()) fields["state_in"] = state_in_;
  if (!state_out_.empty()) fields["state_out"] = state_out_;
  return fields;
}

void TextReply::on_done() {
  if (failure_) return on_failure(Refusal(*failure_));
  if (!kept_) return finish();
  // On another thread, so that no step waits for a disk.
  service_.states.keep_later(owner, std::move(kept_->state), std::move(kept_->unread),
                             [self = shared_from_this()](const std::string& id, const Refusal* why) {
                               if (why) return self->on_failure(*why);
                               self->state_out_ = id;
                               self->finish();
                             });
}

void TextReply::finish() {
  try {
    if (!wanted_.streams) {
      exchange_->reply({200, "application/json", dump(reply()), headers_});
      return;
    }
    end_events();
    send_frame(std::string(last_line()));
    exchange_->end_stream();
  } catch (const std::exception& error) {  // a turn that cannot be written
    on_failure(Refusal(500, "not_kept", error.what()));
  }
}

void TextReply::on_failure(const Refusal& why) {
  if (!has_begun_) return exchange_->reply(error_reply(why));
  exchange_->write(failure_frames(why));
  exchange_->end_stream();
}

std::string TextReply::failure_frames(const Refusal& why) {
  Json event = unfinished();
  event.update(Json::parse(error_json(why)));
  return cat("data: ", dump(event), "\n\ndata: [DONE]\n\n");
}

void constrain_calls(GenerationFields& wanted, const ToolFields& tools, const ChatTemplate& chat,
                     ReplyMode& mode) {
  const std::string calls = grammar_of_tools(tools);
  if (wanted.grammar && !calls.empty())
    refuse_field("tools", "expected them or response_format, found both", "unsupported");
  if (wanted.grammar || tools.must_call) {  // the grammar says how the answer begins
    if (mode == ReplyMode::think)
      refuse_field(wanted.grammar ? "response_format" : "tool_choice",
                   "expected an answer without thoughts", "unsupported");
    mode = chat.direct_mode();
  }
  if (!calls.empty()) wanted.grammar = grammar_in(calls, "tools");
}

std::vector<std::string> stops_of(const ChatTemplate& chat, const ToolFields& tools) {
  std::vector<std::string> stops = chat.stops();
  if (tools.ends_at_call()) stops.emplace_back(ToolReader::end_mark(tools.format));
  return stops;
}

std::string take_call_end(const ToolFields& tools, const Tokenizer& tokenizer, GeneratedText& text) {
  if (!tools.ends_at_call() || text.stop != ToolReader::end_mark(tools.format)) return {};
  const std::vector<int32_t> mark = tokenizer.encode(text.stop);
  text.unread.insert(text.unread.end(), mark.begin(), mark.end());
  return text.stop;
}

void submit(Service& service, Call& call, const std::shared_ptr<TextReply>& job) {
  const uint64_t id = service.scheduler.submit(job);
  call.exchange->on_gone([&scheduler = service.scheduler, id] { scheduler.cancel(id); });
}

}  // namespace deltasane::serve
