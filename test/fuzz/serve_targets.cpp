// What a server reads from strangers: requests as bytes, and the bodies of its routes.
#include <xxhash.h>

#include <algorithm>

#include "fuzz/targets.h"
#include "serve/http/head_check.h"
#include "serve/http/request_reader.h"
#include "serve/tool/tool_grammar.h"
#include "serve/tool/tool_reader.h"
#include "serve/wire/chat_fields.h"
#include "serve/wire/generation_fields.h"
#include "serve/wire/json_schema.h"
#include "serve/wire/response_items.h"
#include "serve/wire/token_text.h"
#include "text/chat/chatml.h"
#include "text/chat/world_chat.h"
#include "text/grammar/grammar_matcher.h"

namespace deltasane::fuzz {
namespace {

uint64_t add(uint64_t sum, std::string_view text) {
  return XXH3_64bits_withSeed(text.data(), text.size(), sum);
}

}  // namespace

// All requests in the bytes, as one connection sends them, whole and in pieces: both must be
// understood alike.
Meaning http_request(Bytes bytes) {
  const std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const serve::HttpLimits limits;
  const auto read = [&](size_t piece) {
    Meaning meaning = 0;
    try {
      serve::RequestReader reader(limits);
      std::string held;
      bool is_limited = false;
      for (size_t at = 0; at < text.size(); at += piece) {
        held += text.substr(at, piece);
        while (!held.empty()) {
          const size_t used = reader.feed(held);
          held.erase(0, used);
          if (reader.has_head() && !is_limited) {
            is_limited = true;
            reader.set_body_limit(1 << 16);
          } else if (used == 0) {
            break;
          }
          if (!reader.is_done()) continue;
          const serve::HttpRequest request = reader.take_request();
          meaning = add(add(add(*meaning, request.method), request.path), request.body);
          for (const auto& [name, value] : request.headers) meaning = add(add(*meaning, name), value);
          reader = serve::RequestReader(limits);
          is_limited = false;
        }
      }
      if (reader.has_begun()) return Meaning();  // not whole
    } catch (const serve::Refusal&) {
      return Meaning();
    }
    return meaning;
  };
  const Meaning whole = read(text.size() + 1);
  require(read(1) == whole, "a request means the same however it is cut");
  return whole;
}

namespace {

// The text and the calls that an answer has, fed in pieces.
std::string calls_in(const std::shared_ptr<const serve::ToolFields>& tools, std::string_view answer,
                     size_t piece) {
  serve::ToolReader reader(tools);
  std::string text, calls;
  const auto take = [&](const serve::ToolReader::Piece& some) {
    text += some.text;
    for (const serve::ToolCall& call : some.calls) calls += call.name + serve::dump(call.arguments);
  };
  for (size_t at = 0; at < answer.size(); at += piece) take(reader.feed(answer.substr(at, piece)));
  take(reader.finish());
  return text + calls;
}

// Functions and messages as each kind of template takes them; texts of users as answers, too.
uint64_t chat_meaning(serve::Fields& fields) {
  using enum ToolFormat;
  const ChatMl tagged(ChatMl::Thoughts::open, true, tagged_parameters),
      json(ChatMl::Thoughts::free, true, tagged_json);
  uint64_t meaning = 0;
  for (const ChatTemplate* const chat : std::initializer_list<const ChatTemplate*>{
           &world_template(), &tagged, &json}) {
    const auto tools = serve::read_tools(fields, *chat);
    serve::grammar_in(serve::grammar_of_tools(*tools), "tools");
    for (const Message& message : serve::read_messages(fields, *tools)) {
      const std::string whole = calls_in(tools, message.text, message.text.size() + 1);
      require(calls_in(tools, message.text, 1) == whole, "calls are the same however a text is cut");
      meaning = add(add(add(meaning, message.text), message.calls), whole);
    }
  }
  return meaning;
}

std::string_view text_of(Bytes bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// How much of a text a grammar lets follow, at most its first 64 bytes.
uint64_t followed(const std::shared_ptr<const Grammar>& grammar, std::string_view text) {
  GrammarMatcher matcher(grammar);
  uint64_t count = 0;
  while (count < std::min<size_t>(text.size(), 64) && matcher.advance(text.substr(count, 1))) ++count;
  return 2 * count + GrammarMatcher::can_end(matcher.state());
}

}  // namespace

Meaning request_body(Bytes bytes) {
  using namespace serve;
  const Json body = read_json(text_of(bytes));
  Fields fields(body);
  const GenerationFields wanted = read_generation(fields, {});
  uint64_t meaning = add(uint64_t(wanted.samples), dump(body));
  if (fields.find("messages")) meaning += chat_meaning(fields);
  if (const Json* const ids = fields.find("prompt"); ids && ids->is_array())
    meaning += read_ids(*ids, "prompt", 65536).size();
  read_reply_mode(fields, ReplyMode::plain);
  return add(meaning, header_list(fields.unknown()));
}

// The fields input and tools of a response, as messages and as a turn of each format.
Meaning response_items(Bytes bytes) {
  using namespace serve;
  using enum ToolFormat;
  const Json body = read_json(text_of(bytes));
  Fields fields(body);
  const Json* const input = fields.find("input");
  if (!input) return std::nullopt;
  const ChatMl tagged(ChatMl::Thoughts::open, true, tagged_parameters),
      json(ChatMl::Thoughts::free, true, tagged_json);
  uint64_t meaning = 0;
  for (const ChatTemplate* const chat : std::initializer_list<const ChatTemplate*>{
           &world_template(), &tagged, &json}) {
    const auto tools = read_tools(fields, *chat, ToolNotation::flat);
    const Json items = read_items(*input, "input", tools->format, Json::array());
    for (const Message& message : messages_of_items(items, "Be kind.", *tools))
      meaning = add(add(add(meaning, message.text), message.thoughts), message.calls);
    if (items.empty() || !is_users(items.back())) return std::nullopt;
    if (items.size() == 1) meaning = add(meaning, next_turn_text(items, tools->format));
  }
  return meaning;
}

// What a schema becomes is a grammar, or beyond its limits.
Meaning json_schema(Bytes bytes) {
  const std::string text = serve::grammar_of_schema(serve::read_json(text_of(bytes)), "schema");
  return add(followed(serve::grammar_in(text, "schema"), "{\"a\":[1,true,\"b\"]}"), text);
}

// A grammar, a zero, and a text.
Meaning grammar(Bytes bytes) {
  const std::string_view text = text_of(bytes);
  const size_t end = std::min(text.find('\0'), text.size());
  const auto parsed = std::make_shared<const Grammar>(parse_grammar(text.substr(0, end)));
  return add(followed(parsed, text.substr(std::min(end + 1, text.size()))), text.substr(0, end));
}

}  // namespace deltasane::fuzz
