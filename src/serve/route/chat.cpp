#include <algorithm>

#include "base/json/array_at.h"
#include "serve/route/text_reply.h"
#include "serve/tool/tool_reader.h"
#include "serve/wire/chat_fields.h"
#include "serve/wire/event_frame.h"
#include "serve/wire/held_scores.h"
#include "serve/wire/token_lists.h"
#include "serve/wire/token_text.h"
#include "text/chat/thought_reader.h"

namespace deltasane::serve {
namespace {

struct ChatRequestFields {
  std::vector<int32_t> prompt;
  std::vector<std::string> stops;  // of the template and of calls
  int64_t tokens = 0;
  ReplyMode mode = ReplyMode::plain;
  std::optional<int64_t> top;
  StateFields state;
  std::shared_ptr<const ToolFields> tools;
};

Json bytes_of(const Tokenizer& tokenizer, int32_t token) {
  Json bytes = Json::array();
  for (const char byte : tokenizer.bytes_of(token)) bytes.push_back(static_cast<unsigned char>(byte));
  return bytes;
}

Json scored_token(const Tokenizer& tokenizer, int32_t token, double log_probability) {
  return {{"token", token_text(tokenizer, token)},
          {"logprob", printed(log_probability)},
          {"bytes", bytes_of(tokenizer, token)}};
}

class ChatCompletion final : public TextReply {
 public:
  ChatCompletion(Service& service, const Call& call, GenerationFields wanted,
                 ChatRequestFields fields)
      : TextReply(service, call, std::move(wanted), random_id("chatcmpl-")),
        top_(fields.top),
        tools_(fields.tools),
        choices_(size_t(wanted_.samples),
                 Choice(service.chat->reply_beginning(fields.mode), fields.tools,
                        service.tokenizer)) {
    usage_.prompt = int64_t(fields.prompt.size());
    TextRequest request{0, service.model.fresh_state(), std::move(fields.prompt),
                        wanted_.samplers()};
    source = fields.state.state;
    usage_.cached = fields.state.position();
    usage_.prompt += usage_.cached;
    request.keeps_before_stop = keeps_state_ = fields.state.returns;
    state_in_ = fields.state.id;
    if (!fields.state.session.empty()) session = fields.state.session;
    request.limits = wanted_.limits(fields.tokens, std::move(fields.stops));
    request.top_written = top_;
    constrain(request, top_.has_value());
    prompts.push_back(std::move(request));
  }

  void on_prefix_found(size_t, int64_t tokens) override { usage_.cached += tokens; }
  void on_prompt_read(size_t, LogProbabilities) override {
    for (size_t i = 0; wanted_.streams && i < choices_.size(); ++i)
      send(chunk_of(i, {{"role", "assistant"}, {"content", ""}}, nullptr));
  }

  void on_token(size_t, const WrittenToken& token) override {
    Choice& choice = choices_[token.sample];
    ++usage_.written;
    usage_.thoughts += choice.reader.is_thinking();
    std::vector<Json> scores;
    if (top_) {
      const LogProbabilities& found = *token.log_probabilities;
      Json score = scored_token(service_.tokenizer, token.token, found.tokens[0]);
      score["top_logprobs"] = Json::array();
      for (const TokenLogProbability& one : found.top)
        if (one.token >= 0)
          array_at(score, "top_logprobs")
              .push_back(scored_token(service_.tokenizer, one.token, one.log_probability));
      scores = choice.held.add(token.token, std::move(score), token.piece);
    }
    const ThoughtReader::Piece piece = choice.reader.feed(token.piece);
    take(token.sample, piece.thoughts, choice.tool_reader.feed(piece.answer), std::move(scores));
  }

 private:
  struct Choice {
    Choice(std::string_view beginning, std::shared_ptr<const ToolFields> tools,
           const Tokenizer& tokenizer)
        : reader(beginning), tool_reader(std::move(tools)), held(tokenizer) {}
    ThoughtReader reader;
    ToolReader tool_reader;
    Json calls = Json::array();
    std::optional<EventFrame> answer_frame, thoughts_frame;  // of a piece of text alone
    std::string thoughts, answer, finish;
    Json scores = Json::array();
    HeldScores<Json> held;
  };

  void take(size_t index, const std::string& thoughts, const ToolReader::Piece& piece,
            std::vector<Json> scores) {
    Choice& choice = choices_[index];
    choice.thoughts += thoughts;
    choice.answer += piece.text;
    Json calls = Json::array();  // each is told as a whole
    for (const ToolCall& call : piece.calls) {
      Json one{{"id", random_id("call_")},
               {"type", "function"},
               {"function", {{"name", call.name}, {"arguments", dump(call.arguments)}}}};
      calls.push_back({{"index", choice.calls.size()}});
      calls.back().update(one);
      choice.calls.push_back(std::move(one));
    }
    if (!wanted_.streams) {
      for (Json& one : scores) choice.scores.push_back(std::move(one));
      return;
    }
    if (scores.empty() && calls.empty() && !wanted_.sends_usage_always) {
      if (!thoughts.empty())
        send_text(index, "reasoning_content", thoughts, choice.thoughts_frame);
      if (!piece.text.empty()) send_text(index, "content", piece.text, choice.answer_frame);
      return;
    }
    Json delta = Json::object();
    if (!thoughts.empty()) delta["reasoning_content"] = thoughts;
    if (!piece.text.empty()) delta["content"] = piece.text;
    if (!calls.empty()) delta["tool_calls"] = std::move(calls);
    if (delta.empty() && scores.empty()) return;
    Json chunk = chunk_of(index, std::move(delta), nullptr);
    if (!scores.empty())
      chunk["choices"][0]["logprobs"] = {{"content", std::move(scores)}, {"refusal", nullptr}};
    send(chunk);
  }

  void send_text(size_t index, const char* field, const std::string& text,
                 std::optional<EventFrame>& frame) {
    if (!frame) frame.emplace(chunk_of(index, {{field, EventFrame::gap}}, nullptr));
    send_frame(frame->with(text));
  }

  Json head(std::string_view object) const {
    return {{"id", id_},
            {"object", object},
            {"created", created_},
            {"model", service_.settings.model_name}};
  }

  Json chunk_of(size_t index, Json delta, const Json& finish) const {
    Json chunk = head("chat.completion.chunk");
    chunk["choices"] = Json::array({{{"index", index},
                                     {"delta", std::move(delta)},
                                     {"logprobs", nullptr},
                                     {"finish_reason", finish}}});
    if (wanted_.sends_usage)
      chunk["usage"] = wanted_.sends_usage_always ? usage_.json() : Json(nullptr);
    return chunk;
  }

  void take_text(size_t, GeneratedText& text) override {
    Choice& choice = choices_[text.sample];
    ThoughtReader::Piece piece = choice.reader.finish();
    piece.answer += take_call_end(*tools_, service_.tokenizer, text);
    const bool is_cut = text.ended == Ended::token_limit;
    take(text.sample, piece.thoughts, choice.tool_reader.feed(piece.answer),
         is_cut ? choice.held.take_all() : std::vector<Json>());
    take(text.sample, {}, choice.tool_reader.finish(), {});
    choice.finish =
        choice.calls.empty() || is_cut ? finish_reason(text.ended) : std::string_view("tool_calls");
    if (wanted_.streams) send(chunk_of(text.sample, Json::object(), choice.finish));
  }

  Json unfinished() const override {
    Json event = head("chat.completion.chunk");
    event["choices"] = Json::array();
    for (size_t i = 0; i < choices_.size(); ++i)
      if (choices_[i].finish.empty())
        array_at(event, "choices")
            .push_back({{"index", i}, {"delta", Json::object()}, {"finish_reason", "error"}});
    return event;
  }

  Json reply() override {
    Json all = head("chat.completion");
    all["choices"] = Json::array();
    for (size_t i = 0; i < choices_.size(); ++i) {
      Choice& choice = choices_[i];
      Json message{{"role", "assistant"}, {"content", choice.answer}, {"refusal", nullptr}};
      if (!choice.thoughts.empty()) message["reasoning_content"] = choice.thoughts;
      if (!choice.calls.empty()) {
        message["tool_calls"] = std::move(choice.calls);
        if (choice.answer.empty()) message["content"] = nullptr;
      }
      Json scores;
      if (top_) scores = {{"content", std::move(choice.scores)}, {"refusal", nullptr}};
      array_at(all, "choices")
          .push_back({{"index", i},
                      {"message", std::move(message)},
                      {"logprobs", std::move(scores)},
                      {"finish_reason", choice.finish}});
    }
    all["usage"] = usage_.json();
    all["system_fingerprint"] = service_.settings.version;
    all["deltasane"] = state_fields();
    return all;
  }

  void end_events() override {
    if (!wanted_.sends_usage && !keeps_state_) return;
    Json last = head("chat.completion.chunk");
    last["choices"] = Json::array();
    last["usage"] = usage_.json();
    last["deltasane"] = state_fields();
    send(last);
  }

  const std::optional<int64_t> top_;
  const std::shared_ptr<const ToolFields> tools_;
  std::vector<Choice> choices_;
  Usage usage_;
};

}  // namespace

const ChatTemplate& expect_chat(const Service& service) {
  if (!service.chat)
    throw Refusal(400, "no_chat_template",
                  "model: expected one with a chat template that is known, found none; start the "
                  "server with one");
  return *service.chat;
}

void complete_chat(Service& service, Call& call) {
  const Json body = read_body(call.request);
  Fields fields(body);
  expect_model(service, fields);
  const ChatTemplate& chat = expect_chat(service);
  GenerationFields wanted = read_generation(fields, service.settings.sampling);
  ChatRequestFields found;
  found.mode = read_reply_mode(fields, service.settings.reply_mode);
  found.tools = read_tools(fields, chat);
  constrain_calls(wanted, *found.tools, chat, found.mode);
  const auto limit = read_token_limit(fields, "max_completion_tokens", 1);
  const auto other_limit = read_token_limit(fields, "max_tokens", 1);
  found.tokens = limit ? *limit : other_limit.value_or(service.settings.max_output);
  const auto top = fields.integer("top_logprobs", 0, 20);
  if (fields.flag("logprobs").value_or(false))
    found.top = std::min(top.value_or(0), service.model.vocabulary());
  else if (top && *top > 0)
    refuse_field("top_logprobs", "expected logprobs to be true");
  fields.refuse_unless_empty("audio", "audio is not supported");
  if (const Json* const kinds = fields.find("modalities"); kinds && *kinds != Json::array({"text"}))
    refuse_field("modalities", "expected text only", "unsupported");
  found.state = read_state_fields(service, call, fields);
  const std::vector<Message> messages =
      read_messages(fields, *found.tools, /*after_state=*/!found.state.id.empty());
  if (found.state.returns && wanted.samples != 1)
    refuse_field("return_state", "expected one text");
  if (found.state.id.empty()) {
    of_field("messages", [&] {
      chat.append_prompt(messages, found.mode, service.tokenizer, found.prompt);
    });
  } else {
    if (messages.size() != 1 || messages[0].role != Role::user)
      refuse_field("messages", "expected one message of the user, or results of calls, after a state");
    found.prompt = found.state.unread;
    chat.append_next_turn(messages[0].text, found.mode, service.tokenizer, found.prompt);
  }
  found.stops = stops_of(chat, *found.tools);
  const auto job =
      std::make_shared<ChatCompletion>(service, call, std::move(wanted), std::move(found));
  job->ignore_fields(fields.unknown());
  submit(service, call, job);
}

void show_chat_prompt(Service& service, Call& call) {
  const Json body = read_body(call.request);
  Fields fields(body);
  const ReplyMode mode = read_reply_mode(fields, service.settings.reply_mode);
  std::string prompt;
  const ChatTemplate& chat = expect_chat(service);
  const auto tools = read_tools(fields, chat);
  const std::vector<Message> messages = read_messages(fields, *tools);
  for (const PromptPiece& piece : of_field("messages", [&] { return chat.prompt(messages, mode); }))
    prompt += piece.text;
  reply_json(call, {{"prompt", prompt}});
}

}  // namespace deltasane::serve
