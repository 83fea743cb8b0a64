#include <algorithm>

#include "serve/route/response/response_output.h"
#include "serve/route/text_reply.h"
#include "serve/tool/tool_reader.h"
#include "serve/wire/chat_fields.h"
#include "serve/wire/response_items.h"
#include "text/chat/thought_reader.h"

namespace deltasane::serve {
namespace {

struct ResponseFields {
  TurnPointer before;        // null: a conversation begins
  Json items;                // of the input
  std::string instructions;  // in force
  std::string previous, conversation;
  ReplyMode mode = ReplyMode::plain;
  int64_t tokens = 0;
  bool is_kept = true;
  Json metadata;
  std::shared_ptr<const ToolFields> tools;
  Json given_tools = Json::array(), tool_choice = "auto";  // as they came
  std::string told_tools;                                  // those of a Turn
};

class ResponseReply final : public TextReply {
 public:
  ResponseReply(Service& service, const Call& call, GenerationFields wanted, ResponseFields fields,
                TextRequest request, int64_t cached)
      : TextReply(service, call, std::move(wanted), random_id("resp_")),
        fields_(std::move(fields)),
        reader_(service.chat->reply_beginning(fields_.mode)),
        tool_reader_(fields_.tools),
        output_([this](std::string_view type, Json more) {
          if (wanted_.streams) event(type, std::move(more));
        }) {
    usage_.prompt = cached + int64_t(request.prompt.size());
    usage_.cached = cached;
    if (!fields_.conversation.empty()) session = fields_.conversation;
    request.keeps_before_stop = keeps_state_ = fields_.is_kept;
    constrain(request, false);
    prompts.push_back(std::move(request));
  }
  ~ResponseReply() override {
    // A turn that failed leaves the conversation where it was.
    if (!fields_.conversation.empty() && !is_turn_ended_)
      service_.conversations.end_turn(fields_.conversation, nullptr);
  }

  void on_prefix_found(size_t, int64_t tokens) override { usage_.cached += tokens; }
  void on_begin() override {
    if (!wanted_.streams) return;
    event("response.created", {{"response", body("in_progress")}});
    event("response.in_progress", {{"response", body("in_progress")}});
  }
  void on_token(size_t, const WrittenToken& token) override {
    ++usage_.written;
    usage_.thoughts += reader_.is_thinking();
    const ThoughtReader::Piece piece = reader_.feed(token.piece);
    output_.add_thoughts(piece.thoughts);
    take(tool_reader_.feed(piece.answer));
  }

 private:
  void take(const ToolReader::Piece& piece) {
    output_.add_text(piece.text);
    for (const ToolCall& call : piece.calls) output_.add_call(call);
  }

  void take_text(size_t, GeneratedText& text) override {
    ThoughtReader::Piece piece = reader_.finish();
    output_.add_thoughts(piece.thoughts);
    piece.answer += take_call_end(*fields_.tools, service_.tokenizer, text);
    take(tool_reader_.feed(piece.answer));
    take(tool_reader_.finish());
    is_cut_ = text.ended == Ended::token_limit;
    output_.finish(is_cut_);
  }

  std::string frame(std::string_view type, Json more) {
    Json all{{"type", type}, {"sequence_number", events_++}};
    all.update(more);
    return cat("event: ", type, "\ndata: ", dump(all), "\n\n");
  }
  void event(std::string_view type, Json more) { send_frame(frame(type, std::move(more))); }
  std::string failure_frames(const Refusal& why) override {
    Json failed = body("failed");
    failed["error"] = {{"code", "server_error"}, {"message", why.what()}};
    return frame("response.failed", {{"response", std::move(failed)}});
  }

  Json body(std::string_view status) const {
    const bool is_over = status != "in_progress";
    const auto text_or_null = [](const std::string& text) {
      return text.empty() ? Json(nullptr) : Json(text);
    };
    Json all{{"id", id_},
             {"object", "response"},
             {"created_at", created_},
             {"status", status},
             {"error", nullptr},
             {"incomplete_details",
              is_over && is_cut_ ? Json{{"reason", "max_output_tokens"}} : Json(nullptr)},
             {"instructions", text_or_null(fields_.instructions)},
             {"max_output_tokens", fields_.tokens},
             {"metadata", fields_.metadata},
             {"model", service_.settings.model_name},
             {"output", is_over ? output_.items() : Json::array()},
             {"parallel_tool_calls", !fields_.tools->calls_one},
             {"previous_response_id", text_or_null(fields_.previous)},
             {"store", fields_.is_kept},
             {"temperature", wanted_.sampling.temperature},
             {"tool_choice", fields_.tool_choice},
             {"tools", fields_.given_tools},
             {"top_p", wanted_.sampling.top_p},
             {"usage", nullptr}};
    if (!fields_.conversation.empty()) all["conversation"] = {{"id", fields_.conversation}};
    if (is_over) {
      all["usage"] = {{"input_tokens", usage_.prompt},
                      {"input_tokens_details",
                       {{"cached_tokens", usage_.cached}, {"cache_write_tokens", 0}}},
                      {"output_tokens", usage_.written},
                      {"output_tokens_details", {{"reasoning_tokens", usage_.thoughts}}},
                      {"total_tokens", usage_.prompt + usage_.written}};
      all["deltasane"] = {{"seed", wanted_.sampling.seed}, {"state_out", text_or_null(state_out_)}};
    }
    return all;
  }

  // The state is kept: now the turn is, and then the client hears of it.
  Json reply() override {
    Json whole = body(is_cut_ ? "incomplete" : "completed");
    if (!fields_.is_kept) return whole;
    Json items = fields_.items;
    for (const Json& item : output_.items()) items.push_back(item);
    const auto turn = std::make_shared<const Turn>(Turn{
        fields_.before, id_, std::move(items), fields_.instructions, state_out_, fields_.told_tools});
    service_.conversations.add_response(owner, turn, whole);
    if (!fields_.conversation.empty()) {
      is_turn_ended_ = true;
      service_.conversations.end_turn(fields_.conversation, turn);
    }
    return whole;
  }

  void end_events() override {
    event(is_cut_ ? "response.incomplete" : "response.completed", {{"response", reply()}});
  }
  std::string_view last_line() const override { return ""; }

  const ResponseFields fields_;
  ThoughtReader reader_;
  ToolReader tool_reader_;
  ResponseOutput output_;
  Usage usage_;
  bool is_cut_ = false, is_turn_ended_ = false;
  int64_t events_ = 0;
};

std::string conversation_id(Fields& fields) {
  const Json* const value = fields.find("conversation");
  if (!value || value->is_string()) return value ? value->get<std::string>() : "";
  Fields inner(*value, "conversation");
  return inner.text("id").value_or("");
}

ResponseFields read_response(const Service& service, Fields& fields, const ChatTemplate& chat) {
  ResponseFields found;
  found.tools = read_tools(fields, chat, ToolNotation::flat);
  if (const Json* const tools = fields.find("tools")) found.given_tools = *tools;
  if (const Json* const choice = fields.find("tool_choice")) found.tool_choice = *choice;
  for (const Tool& tool : found.tools->tools) found.told_tools += dump(tool.definition) + "\n";
  found.previous = fields.text("previous_response_id").value_or("");
  found.conversation = conversation_id(fields);
  if (!found.previous.empty() && !found.conversation.empty())
    refuse_field("conversation", "expected it or previous_response_id, found both");
  found.mode = service.settings.reply_mode;
  if (const Json* const reasoning = fields.find("reasoning")) {
    Fields inner(*reasoning, "reasoning");
    if (const auto effort = inner.text("effort"))
      found.mode = reply_mode_of_effort(*effort, "reasoning.effort");
  }
  found.tokens =
      read_token_limit(fields, "max_output_tokens", 1).value_or(service.settings.max_output);
  found.is_kept = fields.flag("store").value_or(true);
  found.metadata = read_metadata(fields);
  if (!found.conversation.empty() && !found.is_kept)
    refuse_field("store", "expected true for a turn of a conversation");
  for (const auto& [name, why] : {std::pair{"background", "background is not supported"},
                                  {"prompt", "stored prompts are not supported"},
                                  {"max_tool_calls", "use parallel_tool_calls"}})
    fields.refuse_unless_empty(name, why);
  if (const Json* const text = fields.find("text")) {
    Fields inner(*text, "text");
    inner.accept({"verbosity"});
    if (const Json* const format = inner.find("format")) {
      Fields kind(*format, "text.format");
      if (kind.text("type").value_or("") != "text")
        refuse_field("text.format", "expected the type text; others are not supported", "unsupported");
    }
  }
  fields.accept({"include", "truncation", "stream_options"});
  return found;
}

// After `found.before` is known: results may be those of its calls.
void read_input(Fields& fields, ResponseFields& found) {
  const Json* const input = fields.find("input");
  if (!input) refuse_field("input", "expected a text or a list of items, found none");
  found.items = read_items(*input, "input", found.tools->format, items_of(found.before.get()));
  if (found.items.empty() || !is_users(found.items.back()))
    refuse_field("input", "expected the last item to be the user's, or the result of a call");
}

// Whether the state of the turn before can read on: it cannot forget instructions or functions, and
// takes one message, or the results of the calls with which it ended.
bool goes_on(const ResponseFields& found) {
  const Turn* const before = found.before.get();
  if (!before || before->state.empty() || before->instructions != found.instructions ||
      before->tools != found.told_tools)
    return false;
  return found.items.size() == 1 || std::ranges::all_of(found.items, is_result);
}

}  // namespace

void create_response(Service& service, Call& call) {
  const Json body = read_body(call.request);
  Fields fields(body);
  expect_model(service, fields);
  const ChatTemplate& chat = expect_chat(service);
  GenerationFields wanted = read_generation(fields, service.settings.sampling);
  if (wanted.samples != 1) refuse_field("n", "expected 1");
  ResponseFields found = read_response(service, fields, chat);
  constrain_calls(wanted, *found.tools, chat, found.mode);
  const auto instructions = fields.text("instructions");
  if (!found.previous.empty()) found.before = service.conversations.turn(call.owner, found.previous);
  if (!found.conversation.empty())
    found.before = service.conversations.begin_turn(call.owner, found.conversation);
  // From here on a failure must end the turn.
  std::shared_ptr<ResponseReply> job;
  const std::string conversation = found.conversation;
  try {
    read_input(fields, found);
    found.instructions = instructions ? *instructions
                                      : (found.before ? found.before->instructions : std::string());
    TextRequest request{0, service.model.fresh_state(), {}, wanted.samplers()};
    std::shared_ptr<const SequenceState> from;
    request.limits = wanted.limits(found.tokens, stops_of(chat, *found.tools));
    int64_t cached = 0;
    if (goes_on(found)) {
      KeptState kept = service.states.find(call.owner, found.before->state);
      request.prompt = std::move(kept.unread);
      cached = kept.state->position;
      from = std::move(kept.state);
      chat.append_next_turn(next_turn_text(found.items, found.tools->format), found.mode,
                            service.tokenizer, request.prompt);
    } else {
      Json items = items_of(found.before.get());
      for (const Json& item : found.items) items.push_back(item);
      const auto messages = messages_of_items(items, found.instructions, *found.tools);
      of_field("input", [&] {
        chat.append_prompt(messages, found.mode, service.tokenizer, request.prompt);
      });
    }
    job = std::make_shared<ResponseReply>(service, call, std::move(wanted), std::move(found),
                                          std::move(request), cached);
    job->source = std::move(from);
    job->ignore_fields(fields.unknown());
    submit(service, call, job);
  } catch (...) {
    if (!job && !conversation.empty()) service.conversations.end_turn(conversation, nullptr);
    throw;
  }
}

void show_response(Service& service, Call& call) {
  reply_json(call, service.conversations.response(call.owner, call.ids[0]));
}

void delete_response(Service& service, Call& call) {
  service.conversations.remove_response(call.owner, call.ids[0]);
  reply_json(call, {{"id", call.ids[0]}, {"object", "response"}, {"deleted", true}});
}

}  // namespace deltasane::serve
