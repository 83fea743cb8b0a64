// Requests that a client sends again because it heard no answer: with the same Idempotency-Key they
// get the answer of the first, for ten minutes, and nothing is done twice. One that comes while the
// first is being answered gets the same answer as it is written.
#pragma once

#include <chrono>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "serve/http/http.h"

namespace deltasane::serve {

class RecordedReply;

class RepeatedReplies {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::minutes kept_time{10};

  // The exchange that the request is to be answered through; null: an earlier one answers it, too.
  // Throws Refusal: the key is not a plain name, or came with another request.
  std::shared_ptr<Exchange> take(const std::string& owner, const HttpRequest& request,
                                 std::shared_ptr<Exchange> exchange, Clock::time_point now);

 private:
  struct Kept {
    std::shared_ptr<RecordedReply> reply;
    uint64_t digest = 0;  // of path and body
    std::list<std::string>::iterator place;
    Clock::time_point began;
  };
  void forget(const std::string& name);

  std::mutex mutex_;
  std::map<std::string, Kept> kept_;
  std::list<std::string> order_;  // names, the oldest first
};

}  // namespace deltasane::serve
