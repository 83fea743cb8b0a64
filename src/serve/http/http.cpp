#include "serve/http/http.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace deltasane::serve {
namespace {

struct StatusRow {
  int status;
  std::string_view reason, type;
};

constexpr std::string_view invalid = "invalid_request_error";
constexpr StatusRow statuses[] = {
    {200, "OK", ""},
    {201, "Created", ""},
    {204, "No Content", ""},
    {400, "Bad Request", invalid},
    {401, "Unauthorized", "authentication_error"},
    {403, "Forbidden", "permission_error"},
    {404, "Not Found", invalid},
    {405, "Method Not Allowed", invalid},
    {408, "Request Timeout", invalid},
    {409, "Conflict", "conflict_error"},
    {411, "Length Required", invalid},
    {413, "Content Too Large", invalid},
    {415, "Unsupported Media Type", invalid},
    {417, "Expectation Failed", invalid},
    {429, "Too Many Requests", "rate_limit_error"},
    {431, "Request Header Fields Too Large", invalid},
    {500, "Internal Server Error", "server_error"},
    {501, "Not Implemented", invalid},
    {503, "Service Unavailable", "unavailable_error"},
    {505, "HTTP Version Not Supported", invalid},
};

const StatusRow& row_of(int status) {
  for (const StatusRow& row : statuses)
    if (row.status == status) return row;
  require(false, "every status that is sent is in the table");
  __builtin_unreachable();
}

}  // namespace

std::string_view HttpRequest::header(std::string_view name) const {
  for (const auto& [key, value] : headers)
    if (key == name) return value;
  return {};
}

std::string_view reason_of(int status) { return row_of(status).reason; }

Refusal with_retry(Refusal refusal) {
  refusal.headers.emplace_back("Retry-After", "1");
  return refusal;
}

Refusal ending_refusal() {
  return with_retry(Refusal(503, "ending", "the server is shutting down; try again later"));
}

std::string error_json(const Refusal& refusal) {
  nlohmann::ordered_json error{{"message", refusal.what()},
                               {"type", row_of(refusal.status).type},
                               {"param", nullptr},
                               {"code", refusal.code}};
  if (!refusal.param.empty()) error["param"] = refusal.param;
  return nlohmann::ordered_json{{"error", std::move(error)}}.dump(
      -1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

HttpReply error_reply(const Refusal& refusal) {
  HttpReply reply{refusal.status, "application/json", error_json(refusal), refusal.headers};
  if (refusal.status == 409) reply.headers.emplace_back("x-should-retry", "false");
  return reply;
}

std::string reply_head(const HttpReply& reply, std::string_view end_line, bool keeps_alive,
                       std::string_view request_id) {
  std::string head = cat("HTTP/1.1 ", reply.status, " ", reason_of(reply.status), "\r\n");
  if (!reply.content_type.empty()) head += cat("Content-Type: ", reply.content_type, "\r\n");
  head += end_line;
  head += keeps_alive ? "Connection: keep-alive\r\n" : "Connection: close\r\n";
  head += "Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n";
  if (!request_id.empty()) head += cat("x-request-id: ", request_id, "\r\n");
  for (const auto& [name, value] : reply.headers) head += cat(name, ": ", value, "\r\n");
  return head + "\r\n";
}

std::string length_line(const HttpReply& reply) {
  return reply.status == 204 ? "" : cat("Content-Length: ", reply.body.size(), "\r\n");
}

bool is_plain_name(std::string_view text) {
  return !text.empty() && text.size() <= 128 && std::ranges::all_of(text, [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           c == '.' || c == '_' || c == '-';
  });
}

std::vector<std::string> query_values(std::string_view query, std::string_view name) {
  std::vector<std::string> found;
  while (!query.empty()) {
    const size_t end = std::min(query.find('&'), query.size());
    const std::string_view one = query.substr(0, end);
    query.remove_prefix(std::min(end + 1, query.size()));
    const size_t equal = one.find('=');
    if (equal != one.npos && one.substr(0, equal) == name) found.emplace_back(one.substr(equal + 1));
  }
  return found;
}

}  // namespace deltasane::serve
