// The paths that the server answers. A route takes the call and replies, at once or later.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "serve/http/http.h"
#include "serve/service.h"
#include "serve/wire/body.h"

namespace deltasane::serve {

struct Call {
  HttpRequest request;
  std::shared_ptr<Exchange> exchange;
  std::string owner;             // whose key it came with; empty where there are no keys
  std::vector<std::string> ids;  // of the path, where the route has {}
};

struct Route {
  std::string_view method, path;  // {} stands for one part
  void (*answer)(Service&, Call&);
  bool is_open = false;  // no key is needed
};

std::span<const Route> routes();

void reply_json(Call& call, const Json& value, int status = 200, Headers headers = {});

// Refuses a model that is not the one that is served. The field may be absent.
void expect_model(const Service& service, Fields& fields);

// Operation.
void answer_health(Service& service, Call& call);
void answer_ready(Service& service, Call& call);
void answer_version(Service& service, Call& call);
void answer_metrics(Service& service, Call& call);
void answer_settings(Service& service, Call& call);
void list_models(Service& service, Call& call);
void show_model(Service& service, Call& call);

// Tokens.
void tokenize_text(Service& service, Call& call);
void detokenize_ids(Service& service, Call& call);
void describe_tokenizer(Service& service, Call& call);
void show_chat_prompt(Service& service, Call& call);

// Texts.
const ChatTemplate& expect_chat(const Service& service);  // refuses where there is none
void complete_prompts(Service& service, Call& call);
void complete_chat(Service& service, Call& call);

// States.
void create_state(Service& service, Call& call);
void read_state_on(Service& service, Call& call);
void list_states(Service& service, Call& call);
void show_state(Service& service, Call& call);
void delete_state(Service& service, Call& call);
void export_state(Service& service, Call& call);
void import_state(Service& service, Call& call);

// The page, and what it shows.
void show_page(Service& service, Call& call);
void watch_sessions(Service& service, Call& call);
void show_heads(Service& service, Call& call);

// Responses and conversations.
void create_response(Service& service, Call& call);
void show_response(Service& service, Call& call);
void delete_response(Service& service, Call& call);
void list_input_items(Service& service, Call& call);
void create_conversation(Service& service, Call& call);
void update_conversation(Service& service, Call& call);
void show_conversation(Service& service, Call& call);
void delete_conversation(Service& service, Call& call);
void list_items(Service& service, Call& call);
void add_items(Service& service, Call& call);

}  // namespace deltasane::serve
