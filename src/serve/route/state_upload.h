// A text of any length that is read into a state as it comes, in constant memory: pieces of whole
// lines go to the scheduler one after another, and the client is read from no faster than that.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "serve/route/route.h"

namespace deltasane::serve {

class StateUpload final : public BodyReader, public std::enable_shared_from_this<StateUpload> {
 public:
  // Continues from the state `id`; "new": from a fresh one. `resume`: there is room for more.
  StateUpload(Service& service, std::string owner, const std::string& id,
              std::function<void()> resume);

  bool take(std::string piece) override;
  void abandon() override;
  void finish(std::shared_ptr<Exchange> exchange);  // the body is whole: what to reply through

 private:
  class Piece;

  void begin_piece();
  void begin_tokens(std::string_view text);
  void fail_with(const Refusal& why);
  void take_piece(SequenceState state, double loss, int64_t scored);
  void keep();

  Service& service_;
  const std::string owner_, session_;
  const std::function<void()> resume_;
  const size_t piece_bytes_;

  // Without the mutex: a connection may be abandoned where it is resumed.
  std::atomic<bool> is_abandoned_{false};
  std::atomic<uint64_t> job_{0};  // that reads a piece; 0: none did yet
  std::mutex mutex_;  // of what follows
  std::string text_;  // that was not read yet
  SequenceState state_;
  std::shared_ptr<const SequenceState> from_;  // of the first piece
  std::vector<int32_t> unread_;
  std::shared_ptr<Exchange> exchange_;
  std::optional<Refusal> failure_;
  Json records_ = Json::array();
  double loss_ = 0;
  int64_t tokens_ = 0, scored_ = 0;
  bool begins_document_ = false, is_reading_ = false, is_whole_ = false;
};

}  // namespace deltasane::serve
