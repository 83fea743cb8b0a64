// Sessions as onlookers see them: takes news of any thread and sends frames to all viewers, at most
// five a second, as server-sent events. A frame has all that is drawn, so that a viewer who was cut
// off misses nothing. Statistics of states are computed on a thread of its own, and only of sessions
// that somebody looks at.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "serve/http/http.h"
#include "serve/metrics.h"
#include "serve/view/session_view.h"

namespace deltasane::serve {

struct Viewer {
  std::string owner;                 // sees its own sessions, and those of everybody
  std::vector<std::string> watched;  // sessions whose heads are wanted; empty: see watched_by
  std::optional<int64_t> head;       // of which the norm is wanted along the positions
  uint64_t last_frame = 0;           // that it has; 0: none
};

class SessionBoard {
 public:
  explicit SessionBoard(Metrics& metrics) : metrics_(metrics) {}
  ~SessionBoard() { close(); }

  // Whether somebody looks and the time for news has come: asked after every step.
  bool has_viewers() const { return viewers_ > 0; }
  bool wants_news();
  bool wants_state_of(const SessionNews& news);  // also of a session that is not known yet
  void take(SessionNews news);
  void tell(Json story);  // more for all frames: an object, of this program's own

  // Throws Refusal where there are too many.
  void add(Viewer viewer, std::shared_ptr<Exchange> exchange);
  void close();  // ends all streams, and takes no further

  // Called when the first viewer comes, by its thread.
  std::function<void()> on_first_viewer = [] {};

 private:
  using Clock = std::chrono::steady_clock;
  struct Stream {
    Viewer viewer;
    std::shared_ptr<Exchange> exchange;
    bool is_new = true;
  };
  struct Known {
    std::string id;
    std::optional<std::string> owner;
  };

  bool know(const SessionNews& news);  // false: another key's session has this name
  std::vector<std::string> watched_by(const Viewer& viewer) const;
  void run();
  void take_news(std::vector<SessionNews> news);
  Json frame_of(const Viewer& viewer, const std::vector<std::string>& watched) const;
  void measure_rates();

  Metrics& metrics_;
  std::atomic<size_t> viewers_{0};
  std::atomic<uint64_t> frame_{0};  // the last that was sent

  std::mutex mutex_;  // of what follows
  std::condition_variable changed_;
  std::map<uint64_t, Stream> streams_;
  uint64_t last_stream_ = 0;
  std::vector<SessionNews> inbox_;
  std::vector<Known> known_;  // the newest last
  Clock::time_point next_news_{};
  Json story_;
  bool has_begun_ = false, is_closed_ = false;
  std::thread thread_;

  // Of the board's thread.
  ThreadPool threads_{1};
  std::map<std::string, SessionView> views_;
  std::vector<std::string> order_;  // of views_, the newest last
  struct Rate {
    double before = 0, now = 0;  // the counter, and what it gained in a second
  };
  Rate read_, written_;
  Clock::time_point measured_{};
};

}  // namespace deltasane::serve
