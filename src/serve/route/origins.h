// Web pages of other servers that may use this one (cross-origin resource sharing). Without an
// allowed origin a browser keeps such pages out.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "serve/http/http.h"

namespace deltasane::serve {

// "https://chat.example" or "http://localhost:3000": a scheme, a host and a port where it has one.
bool is_origin(std::string_view text);

// The request's origin, where it is an allowed one; else empty.
std::string allowed_origin(const HttpRequest& request, std::span<const std::string> allowed);

// A browser asks whether a page may send a request.
bool is_preflight(const HttpRequest& request);
HttpReply preflight_reply();

// Replies through `to`, and says that pages of this origin may read them.
std::shared_ptr<Exchange> for_origin(std::shared_ptr<Exchange> to, std::string origin);

}  // namespace deltasane::serve
