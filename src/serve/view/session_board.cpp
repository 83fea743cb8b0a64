#include "serve/view/session_board.h"

#include <algorithm>

namespace deltasane::serve {
namespace {

constexpr std::chrono::milliseconds between_frames{200}, longest_silence{1000};
constexpr size_t most_viewers = 64, most_watched = 4, most_sessions = 64;

}  // namespace

bool SessionBoard::wants_news() {
  if (viewers_ == 0) return false;
  const std::lock_guard lock(mutex_);
  const auto now = Clock::now();
  if (now < next_news_) return false;
  next_news_ = now + between_frames;
  return true;
}

// Those that it names and may see; else those of everybody, or the newest of its own.
std::vector<std::string> SessionBoard::watched_by(const Viewer& viewer) const {
  std::vector<std::string> pinned, own, named;
  for (const Known& one : known_) {
    if (one.owner && *one.owner != viewer.owner) continue;
    (one.owner ? own : pinned).push_back(one.id);
    if (std::ranges::find(viewer.watched, one.id) != viewer.watched.end()) named.push_back(one.id);
  }
  if (!named.empty()) return named;
  if (!pinned.empty() || own.empty()) return pinned;
  return {own.back()};
}

bool SessionBoard::know(const SessionNews& news) {
  const auto found = std::ranges::find(known_, news.id, &Known::id);
  if (found != known_.end()) return found->owner == news.owner;
  if (known_.size() == most_sessions) {
    const auto oldest =
        std::ranges::find_if(known_, [](const Known& one) { return one.owner.has_value(); });
    if (oldest == known_.end()) return false;
    known_.erase(oldest);
  }
  known_.push_back({news.id, news.owner});
  return true;
}

bool SessionBoard::wants_state_of(const SessionNews& news) {
  const std::lock_guard lock(mutex_);
  if (!know(news)) return false;
  return std::ranges::any_of(streams_, [&](const auto& one) {
    const std::vector<std::string> watched = watched_by(one.second.viewer);
    return std::ranges::find(watched, news.id) != watched.end();
  });
}

void SessionBoard::take(SessionNews news) {
  {
    const std::lock_guard lock(mutex_);
    if (!know(news)) return;
    const auto waiting = std::ranges::find(inbox_, news.id, &SessionNews::id);
    if (waiting == inbox_.end()) {
      inbox_.push_back(std::move(news));
    } else {
      if (!news.state) news.state = std::move(waiting->state), news.taus = std::move(waiting->taus);
      if (news.losses.empty()) news.losses = std::move(waiting->losses);
      *waiting = std::move(news);
    }
  }
  changed_.notify_all();
}

void SessionBoard::tell(Json story) {
  {
    const std::lock_guard lock(mutex_);
    story_ = std::move(story);
  }
  changed_.notify_all();
}

void SessionBoard::add(Viewer viewer, std::shared_ptr<Exchange> exchange) {
  if (viewer.watched.size() > most_watched)
    throw Refusal(400, "invalid_value", cat("watch: expected at most ", most_watched, " sessions"));
  uint64_t number;
  bool is_first = false;
  {
    const std::lock_guard lock(mutex_);
    if (is_closed_) throw ending_refusal();
    if (streams_.size() >= most_viewers)
      throw Refusal(429, "viewers", cat("viewers: expected at most ", most_viewers));
    number = ++last_stream_;
    exchange->begin_stream({200, "text/event-stream; charset=utf-8", {}, {}});
    const bool is_new = viewer.last_frame == 0 || viewer.last_frame != frame_;
    streams_[number] = {std::move(viewer), exchange, is_new};
    viewers_ = streams_.size();
    next_news_ = {};
    if (!std::exchange(has_begun_, true)) {
      is_first = true;
      thread_ = std::thread([this] { run(); });
    }
  }
  changed_.notify_all();
  exchange->on_gone([this, number] {
    const std::lock_guard lock(mutex_);
    streams_.erase(number);
    viewers_ = streams_.size();
  });
  if (is_first) on_first_viewer();
}

void SessionBoard::close() {
  {
    const std::lock_guard lock(mutex_);
    is_closed_ = true;
    for (const auto& [number, stream] : streams_) stream.exchange->end_stream();
    streams_.clear();
    viewers_ = 0;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void SessionBoard::take_news(std::vector<SessionNews> all) {
  for (SessionNews& news : all) {
    auto found = views_.find(news.id);
    if (found == views_.end()) {
      if (order_.size() >= most_sessions) {
        const auto oldest = std::ranges::find_if(
            order_, [&](const std::string& id) { return !views_.at(id).is_pinned(); });
        if (oldest == order_.end()) continue;
        views_.erase(*oldest);
        order_.erase(oldest);
      }
      order_.push_back(news.id);
      SessionNews empty{.id = news.id, .owner = news.owner, .sane = news.sane};
      found = views_.try_emplace(news.id, std::move(empty)).first;
    }
    found->second.take(std::move(news), threads_);
  }
}

void SessionBoard::measure_rates() {
  const auto now = Clock::now();
  const double seconds = std::chrono::duration<double>(now - measured_).count();
  if (seconds < 1) return;
  const bool is_first = measured_ == Clock::time_point();
  for (const auto& [rate, name] : {std::pair(&read_, "prompt_tokens_read_total"),
                                   std::pair(&written_, "generation_tokens_total")}) {
    const double count = metrics_.value(name);
    rate->now = is_first ? 0 : (count - rate->before) / seconds;
    rate->before = count;
  }
  measured_ = now;
}

Json SessionBoard::frame_of(const Viewer& viewer, const std::vector<std::string>& watched) const {
  Json sessions = Json::array(), details = Json::array();
  for (auto id = order_.rbegin(); id != order_.rend(); ++id) {
    const SessionView& view = views_.at(*id);
    if (view.is_visible_to(viewer.owner)) sessions.push_back(view.row());
  }
  for (const std::string& id : watched)
    if (const auto found = views_.find(id);
        found != views_.end() && found->second.is_visible_to(viewer.owner))
      details.push_back(found->second.details(viewer.head));
  return {{"read_per_second", read_.now},
          {"written_per_second", written_.now},
          {"running", metrics_.value("num_requests_running")},
          {"waiting", metrics_.value("num_requests_waiting")},
          {"sessions", std::move(sessions)},
          {"watched", std::move(details)}};
}

void SessionBoard::run() {
  struct Receiver {
    Viewer viewer;
    std::shared_ptr<Exchange> exchange;
    std::vector<std::string> watched;
  };
  for (;;) {
    std::vector<SessionNews> news;
    std::vector<Receiver> receivers;
    Json story;
    {
      std::unique_lock lock(mutex_);
      const auto has_work = [&] {
        return is_closed_ || !inbox_.empty() ||
               std::ranges::any_of(streams_, [](const auto& one) { return one.second.is_new; });
      };
      if (streams_.empty())
        changed_.wait(lock, has_work);
      else
        changed_.wait_for(lock, longest_silence, has_work);
      if (is_closed_) return;
      news.swap(inbox_);
      story = story_;
      for (auto& [number, stream] : streams_) {
        stream.is_new = false;
        receivers.push_back({stream.viewer, stream.exchange, watched_by(stream.viewer)});
      }
    }
    take_news(std::move(news));
    measure_rates();
    ++frame_;
    for (const Receiver& one : receivers) {
      Json frame = frame_of(one.viewer, one.watched);
      if (!story.is_null()) frame["story"] = story;
      one.exchange->write(cat("id: ", frame_.load(), "\ndata: ", dump(frame), "\n\n"));
    }
    receivers.clear();
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, between_frames, [&] { return is_closed_; });
  }
}

}  // namespace deltasane::serve
