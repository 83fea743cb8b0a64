#include <ctime>

#include "serve/route/text_reply.h"
#include "serve/wire/chat_fields.h"
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
  Json metadata = Json::object();
};

Json item_of(std::string_view role, std::string_view type, const std::string& text) {
  return {{"type", "message"},
          {"id", random_id("msg_")},
          {"status", "completed"},
          {"role", role},
          {"content", Json::array({{{"type", type}, {"text", text}}})}};
}

Json read_items(const Json& input, const std::string& path) {
  if (input.is_string()) return Json::array({item_of("user", "input_text", input.get<std::string>())});
  if (!input.is_array()) refuse_field(path, "expected a text or a list of items");
  Json items = Json::array();
  for (const Json& one : input) {
    const std::string here = cat(path, "[", items.size(), "]");
    Fields item(one, here);
    if (item.text("type").value_or("message") != "message")
      refuse_field(cat(here, ".type"), "expected message", "unsupported");
    const std::string role = item.text("role").value_or("");
    read_role(role, cat(here, ".role"));
    const Json* const content = item.find("content");
    if (!content) refuse_field(cat(here, ".content"), "expected a text, found none");
    items.push_back(item_of(role, role == "assistant" ? "output_text" : "input_text",
                            read_content(*content, cat(here, ".content"))));
  }
  return items;
}

class ResponseReply final : public TextReply {
 public:
  ResponseReply(Service& service, const Call& call, GenerationFields wanted, ResponseFields fields,
                TextRequest request, int64_t cached)
      : TextReply(service, call, std::move(wanted), random_id("resp_")),
        fields_(std::move(fields)),
        message_id_(random_id("msg_")),
        thoughts_id_(random_id("rs_")),
        reader_(service.chat->reply_beginning(fields_.mode)) {
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
    take(reader_.feed(token.piece));
  }

 private:
  void take(const ThoughtReader::Piece& piece) {
    if (!piece.thoughts.empty()) {
      if (wanted_.streams && thoughts_.empty()) begin_thoughts();
      thoughts_ += piece.thoughts;
      if (wanted_.streams)
        event("response.reasoning_text.delta", place_of_thoughts({{"delta", piece.thoughts}}));
    }
    if (piece.answer.empty()) return;
    if (wanted_.streams && !has_message_) begin_message();
    text_ += piece.answer;
    if (wanted_.streams)
      event("response.output_text.delta",
            place({{"delta", piece.answer}, {"logprobs", Json::array()}}));
  }

  void begin_thoughts() {
    Json item{{"type", "reasoning"}, {"id", thoughts_id_}, {"status", "in_progress"},
              {"summary", Json::array()}, {"content", Json::array()}};
    event("response.output_item.added", {{"output_index", 0}, {"item", std::move(item)}});
    event("response.content_part.added", place_of_thoughts({{"part", thoughts_part("")}}));
  }

  // When the thoughts are over.
  void begin_message() {
    has_message_ = true;
    if (!thoughts_.empty()) {
      event("response.reasoning_text.done", place_of_thoughts({{"text", thoughts_}}));
      event("response.content_part.done", place_of_thoughts({{"part", thoughts_part(thoughts_)}}));
      event("response.output_item.done", {{"output_index", 0}, {"item", thoughts_item()}});
    }
    Json item{{"type", "message"}, {"id", message_id_}, {"status", "in_progress"},
              {"role", "assistant"}, {"content", Json::array()}};
    event("response.output_item.added", {{"output_index", message_index()}, {"item", std::move(item)}});
    event("response.content_part.added", place({{"part", part("")}}));
  }

  void take_text(size_t, GeneratedText& text) override {
    take(reader_.finish());
    is_cut_ = text.ended == Ended::token_limit;
  }

  static Json part(const std::string& text) {
    return {{"type", "output_text"},
            {"text", text},
            {"annotations", Json::array()},
            {"logprobs", Json::array()}};
  }
  static Json thoughts_part(const std::string& text) {
    return {{"type", "reasoning_text"}, {"text", text}};
  }
  int message_index() const { return thoughts_.empty() ? 0 : 1; }
  Json place(Json more) const {
    Json all{{"item_id", message_id_}, {"output_index", message_index()}, {"content_index", 0}};
    all.update(more);
    return all;
  }
  Json place_of_thoughts(Json more) const {
    Json all{{"item_id", thoughts_id_}, {"output_index", 0}, {"content_index", 0}};
    all.update(more);
    return all;
  }
  Json thoughts_item() const {
    return {{"type", "reasoning"},
            {"id", thoughts_id_},
            {"status", is_cut_ && text_.empty() ? "incomplete" : "completed"},
            {"summary", Json::array()},
            {"content", Json::array({thoughts_part(thoughts_)})}};
  }
  Json output() const {
    Json items = Json::array();
    if (!thoughts_.empty()) items.push_back(thoughts_item());
    items.push_back(message());
    return items;
  }
  Json message() const {
    return {{"type", "message"},
            {"id", message_id_},
            {"status", is_cut_ ? "incomplete" : "completed"},
            {"role", "assistant"},
            {"content", Json::array({part(text_)})}};
  }
  void event(std::string_view type, Json more) {
    Json all{{"type", type}, {"sequence_number", events_++}};
    all.update(more);
    send_frame(cat("event: ", type, "\ndata: ", dump(all), "\n\n"));
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
             {"output", is_over ? output() : Json::array()},
             {"parallel_tool_calls", false},
             {"previous_response_id", text_or_null(fields_.previous)},
             {"store", fields_.is_kept},
             {"temperature", wanted_.sampling.temperature},
             {"tool_choice", "none"},
             {"tools", Json::array()},
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
    items.push_back(message());
    const auto turn = std::make_shared<const Turn>(
        Turn{fields_.before, id_, std::move(items), fields_.instructions, state_out_});
    service_.conversations.add_response(owner, turn, whole);
    if (!fields_.conversation.empty()) {
      is_turn_ended_ = true;
      service_.conversations.end_turn(fields_.conversation, turn);
    }
    return whole;
  }

  void end_events() override {
    const Json whole = reply();
    if (!has_message_) begin_message();
    event("response.output_text.done", place({{"text", text_}, {"logprobs", Json::array()}}));
    event("response.content_part.done", place({{"part", part(text_)}}));
    event("response.output_item.done", {{"output_index", message_index()}, {"item", message()}});
    event(is_cut_ ? "response.incomplete" : "response.completed", {{"response", whole}});
  }
  std::string_view last_line() const override { return ""; }

  const ResponseFields fields_;
  const std::string message_id_, thoughts_id_;
  ThoughtReader reader_;
  Usage usage_;
  std::string text_, thoughts_;
  bool has_message_ = false, is_cut_ = false, is_turn_ended_ = false;
  int64_t events_ = 0;
};

std::string conversation_id(Fields& fields) {
  const Json* const value = fields.find("conversation");
  if (!value || value->is_string()) return value ? value->get<std::string>() : "";
  Fields inner(*value, "conversation");
  return inner.text("id").value_or("");
}

ResponseFields read_response(const Service& service, Fields& fields) {
  ResponseFields found;
  found.previous = fields.text("previous_response_id").value_or("");
  found.conversation = conversation_id(fields);
  if (!found.previous.empty() && !found.conversation.empty())
    refuse_field("conversation", "expected it or previous_response_id, found both");
  const Json* const input = fields.find("input");
  if (!input) refuse_field("input", "expected a text or a list of items, found none");
  found.items = read_items(*input, "input");
  if (found.items.empty() || found.items.back()["role"] != "user")
    refuse_field("input", "expected the last item to be the user's");
  found.mode = service.settings.reply_mode;
  if (const Json* const reasoning = fields.find("reasoning")) {
    Fields inner(*reasoning, "reasoning");
    if (const auto effort = inner.text("effort"))
      found.mode = reply_mode_of_effort(*effort, "reasoning.effort");
  }
  found.tokens =
      read_token_limit(fields, "max_output_tokens", 1).value_or(service.settings.max_output);
  found.is_kept = fields.flag("store").value_or(true);
  if (const Json* const metadata = fields.find("metadata")) {
    if (!metadata->is_object() || metadata->size() > 16 || dump(*metadata).size() > 16384)
      refuse_field("metadata", "expected an object of at most 16 texts");
    found.metadata = *metadata;
  }
  if (!found.conversation.empty() && !found.is_kept)
    refuse_field("store", "expected true for a turn of a conversation");
  for (const auto& [name, why] : {std::pair{"background", "background is not supported"},
                                  {"prompt", "stored prompts are not supported"},
                                  {"max_tool_calls", "tools are not supported"}})
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
  fields.accept({"include", "truncation", "tool_choice", "stream_options"});
  return found;
}

}  // namespace

void create_response(Service& service, Call& call) {
  const Json body = read_body(call.request);
  Fields fields(body);
  expect_model(service, fields);
  const ChatTemplate& chat = expect_chat(service);
  GenerationFields wanted = read_generation(fields, service.settings.sampling);
  refuse_tools(fields);
  if (wanted.samples != 1) refuse_field("n", "expected 1");
  ResponseFields found = read_response(service, fields);
  if (wanted.grammar) found.mode = chat.direct_mode();
  const auto instructions = fields.text("instructions");
  if (!found.previous.empty()) found.before = service.conversations.turn(call.owner, found.previous);
  if (!found.conversation.empty())
    found.before = service.conversations.begin_turn(call.owner, found.conversation);
  // From here on a failure must end the turn.
  std::shared_ptr<ResponseReply> job;
  try {
    found.instructions = instructions ? *instructions
                                      : (found.before ? found.before->instructions : std::string());
    TextRequest request{0, service.model.fresh_state(), {}, wanted.samplers()};
    std::shared_ptr<const SequenceState> from;
    request.limits = wanted.limits(found.tokens, chat.stops());
    int64_t cached = 0;
    // A state cannot forget: other instructions, or several messages at once, are read anew.
    const bool goes_on = found.before && !found.before->state.empty() &&
                         found.before->instructions == found.instructions &&
                         found.items.size() == 1;
    if (goes_on) {
      KeptState kept = service.states.find(call.owner, found.before->state);
      request.prompt = std::move(kept.unread);
      cached = kept.state->position;
      from = std::move(kept.state);
      chat.append_next_turn(read_content(found.items[0]["content"], "input"), found.mode,
                            service.tokenizer, request.prompt);
    } else {
      const Turn turn{found.before, {}, found.items, found.instructions, {}};
      chat.append_prompt(messages_of(&turn), found.mode, service.tokenizer, request.prompt);
    }
    const std::string conversation = found.conversation;
    job = std::make_shared<ResponseReply>(service, call, std::move(wanted), std::move(found),
                                          std::move(request), cached);
    job->source = std::move(from);
    job->ignore_fields(fields.unknown());
    submit(service, call, job);
  } catch (...) {
    if (!job && !found.conversation.empty())
      service.conversations.end_turn(found.conversation, nullptr);
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

Json item_list(Json items) {
  return {{"object", "list"},
          {"first_id", items.empty() ? Json(nullptr) : items.front()["id"]},
          {"last_id", items.empty() ? Json(nullptr) : items.back()["id"]},
          {"has_more", false},
          {"data", std::move(items)}};
}

void list_input_items(Service& service, Call& call) {
  Json items = items_of(service.conversations.turn(call.owner, call.ids[0]).get());
  items.erase(items.size() - 1);  // the answer
  reply_json(call, item_list(std::move(items)));
}

void create_conversation(Service& service, Call& call) {
  const Json body = read_body(call.request);
  Fields fields(body);
  const Json* const metadata = fields.find("metadata");
  const Json* const items = fields.find("items");
  if (metadata && (!metadata->is_object() || metadata->size() > 16))
    refuse_field("metadata", "expected an object of at most 16 texts");
  const std::string id =
      service.conversations.create(call.owner, metadata ? *metadata : Json::object(),
                                   items ? read_items(*items, "items") : Json::array());
  reply_json(call, service.conversations.conversation(call.owner, id));
}

void show_conversation(Service& service, Call& call) {
  reply_json(call, service.conversations.conversation(call.owner, call.ids[0]));
}

void delete_conversation(Service& service, Call& call) {
  service.conversations.remove(call.owner, call.ids[0]);
  reply_json(call, {{"id", call.ids[0]}, {"object", "conversation.deleted"}, {"deleted", true}});
}

void list_items(Service& service, Call& call) {
  reply_json(call, item_list(items_of(service.conversations.head(call.owner, call.ids[0]).get())));
}

}  // namespace deltasane::serve
