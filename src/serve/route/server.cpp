#include "serve/route/server.h"

#include <algorithm>
#include <new>

#include "base/printable.h"
#include "serve/http/head_check.h"
#include "serve/route/origins.h"
#include "serve/route/state_upload.h"

namespace deltasane::serve {
namespace {

constexpr Route all_routes[] = {
    {"GET", "/health", answer_health, true},
    {"GET", "/ready", answer_ready, true},
    {"GET", "/", show_page, true},
    {"GET", "/chat", show_page, true},
    {"GET", "/dashboard", show_page, true},
    {"GET", "/version", answer_version},
    {"GET", "/metrics", answer_metrics},
    {"GET", "/props", answer_settings},
    {"GET", "/v1/models", list_models},
    {"GET", "/v1/models/{}", show_model},
    {"POST", "/tokenize", tokenize_text},
    {"POST", "/v1/tokenize", tokenize_text},
    {"POST", "/detokenize", detokenize_ids},
    {"POST", "/v1/detokenize", detokenize_ids},
    {"GET", "/tokenizer_info", describe_tokenizer},
    {"GET", "/v1/tokenizer_info", describe_tokenizer},
    {"POST", "/apply-template", show_chat_prompt},
    {"POST", "/v1/completions", complete_prompts},
    {"POST", "/v1/chat/completions", complete_chat},
    {"GET", "/v1/states", list_states},
    {"POST", "/v1/states", create_state},
    {"PUT", "/v1/states", import_state},
    {"GET", "/v1/states/{}", show_state},
    {"DELETE", "/v1/states/{}", delete_state},
    {"GET", "/v1/states/{}/file", export_state},
    {"GET", "/v1/states/{}/heads", show_heads},
    {"POST", "/v1/states/{}/read", read_state_on},
    {"PUT", "/v1/states/{}/read", read_state_on},
    {"GET", "/v1/events", watch_sessions},
    {"POST", "/v1/responses", create_response},
    {"GET", "/v1/responses/{}", show_response},
    {"DELETE", "/v1/responses/{}", delete_response},
    {"GET", "/v1/responses/{}/input_items", list_input_items},
    {"POST", "/v1/conversations", create_conversation},
    {"GET", "/v1/conversations/{}", show_conversation},
    {"POST", "/v1/conversations/{}", update_conversation},
    {"DELETE", "/v1/conversations/{}", delete_conversation},
    {"GET", "/v1/conversations/{}/items", list_items},
    {"POST", "/v1/conversations/{}/items", add_items},
};

// Whether the path is the route's; then `ids` has the parts for its {}.
bool matches(std::string_view route, std::string_view path, std::vector<std::string>& ids) {
  ids.clear();
  for (;;) {
    const size_t route_end = std::min(route.find('/', 1), route.size());
    const size_t path_end = std::min(path.find('/', 1), path.size());
    const std::string_view wanted = route.substr(0, route_end), part = path.substr(0, path_end);
    if (wanted == "/{}" && part.size() > 1)
      ids.emplace_back(part.substr(1));
    else if (wanted != part)
      return false;
    route.remove_prefix(route_end);
    path.remove_prefix(path_end);
    if (route.empty() || path.empty()) return route.empty() && path.empty();
  }
}

struct Found {
  const Route* route = nullptr;
  std::vector<std::string> ids;
};

// As it is, where nothing in it needs to be escaped.
std::string in_a_line(const std::string& path) {
  const std::string quoted = printable(path);
  return quoted == cat("'", path, "'") ? path : quoted;
}

Found find_route(const HttpRequest& request) {
  Found found;
  std::string allowed;
  for (const Route& route : routes()) {
    if (!matches(route.path, request.path, found.ids)) continue;
    if (route.method == request.method || (route.method == "GET" && request.method == "HEAD")) {
      found.route = &route;
      return found;
    }
    allowed += cat(allowed.empty() ? "" : ", ", route.method, route.method == "GET" ? ", HEAD" : "");
  }
  if (allowed.empty())
    throw Refusal(404, "not_found",
                  cat("no such path: ", in_a_line(request.path)));
  Refusal refusal(405, "method_not_allowed",
                  cat("method: expected ", allowed, ", found ", printable(request.method)));
  refusal.headers.emplace_back("Allow", allowed);
  throw refusal;
}

void check_host(const Service& service, const HttpRequest& request) {
  const std::string_view host = request.header("host");
  if (host.empty() || service.settings.hosts.empty()) return;
  if (std::ranges::find(service.settings.hosts, host_name(host)) == service.settings.hosts.end())
    throw Refusal(403, "host",
                  cat("header host: expected a name that this server was given, found ",
                      printable(host), "; start the server with the option allow-host NAME"));
}

std::string owner_of(const Service& service, const HttpRequest& request) {
  if (auto owner = service.keys.owner(request.header("authorization"))) return *owner;
  Refusal refusal(401, "invalid_api_key",
                  "header authorization: expected 'Bearer' and an API key of this server");
  refusal.headers.emplace_back("WWW-Authenticate", "Bearer");
  throw refusal;
}

// A server that ends still says so, and how it is.
void expect_staying(const Service& service, const Route& route) {
  if (service.is_draining && route.answer != answer_health && route.answer != answer_ready)
    throw ending_refusal();
}

}  // namespace

std::span<const Route> routes() { return all_routes; }

void reply_json(Call& call, const Json& value, int status, Headers headers) {
  call.exchange->reply({status, "application/json", dump(value), std::move(headers)});
}

void expect_model(const Service& service, Fields& fields) {
  const auto model = fields.text("model");
  if (model && !model->empty() && *model != service.settings.model_name)
    throw Refusal(404, "model_not_found",
                  cat("model: expected ", service.settings.model_name, ", found ",
                      printable(*model)),
                  "model");
}

// Refusals that need no body come before it is read.
size_t Server::body_limit(const HttpRequest& head) {
  check_host(service_, head);
  if (is_preflight(head) && !allowed_origin(head, service_.settings.origins).empty()) return 0;
  const Found found = find_route(head);
  expect_staying(service_, *found.route);
  if (!found.route->is_open) owner_of(service_, head);
  if (found.route->method == "GET") return 0;
  if (found.route->method == "PUT")  // a state file
    return service_.model.fresh_state().bytes() + service_.settings.body_bytes;
  return service_.settings.body_bytes;
}

// A text that is sent as it is, and not as JSON, may be of any length.
std::shared_ptr<BodyReader> Server::begin_body(const HttpRequest& head, std::function<void()> resume) {
  if (is_preflight(head)) return nullptr;
  const Found found = find_route(head);
  if (found.route->answer != read_state_on || is_json(head)) return nullptr;
  return std::make_shared<StateUpload>(service_, owner_of(service_, head), found.ids[0],
                                       std::move(resume));
}

void Server::answer(HttpRequest request, std::shared_ptr<Exchange>& exchange) {
  check_host(service_, request);
  if (is_preflight(request) && !allowed_origin(request, service_.settings.origins).empty())
    return exchange->reply(preflight_reply());
  Found found = find_route(request);
  if (!request.body_reader) expect_staying(service_, *found.route);
  std::string owner = found.route->is_open ? std::string() : owner_of(service_, request);
  std::shared_ptr<Exchange> recorded =
      repeated_.take(owner, request, exchange, RepeatedReplies::Clock::now());
  if (!recorded) return;
  exchange = std::move(recorded);
  Call call{std::move(request), exchange, std::move(owner), std::move(found.ids)};
  found.route->answer(service_, call);
}

void Server::handle(HttpRequest request, std::shared_ptr<Exchange> exchange) {
  if (std::string origin = allowed_origin(request, service_.settings.origins); !origin.empty())
    exchange = for_origin(std::move(exchange), std::move(origin));
  // An answer that is recorded for repetition refuses through its record.
  std::shared_ptr<Exchange> answering = exchange;
  const auto refuse = [&](const Refusal& refusal) { answering->reply(error_reply(refusal)); };
  try {
    answer(std::move(request), answering);
  } catch (const Refusal& refusal) {
    refuse(refusal);
  } catch (const Error& error) {
    const bool is_request = error.fault() == Fault::usage || error.fault() == Fault::argument;
    refuse(Refusal(is_request ? 400 : 500, is_request ? "invalid_value" : "failed", error.what()));
  } catch (const std::bad_alloc&) {
    refuse(Refusal(503, "out_of_memory", "request: expected memory for it, found too little"));
  } catch (const std::exception& error) {
    refuse(Refusal(500, "failed", error.what()));
  }
}

}  // namespace deltasane::serve
