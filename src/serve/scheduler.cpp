#include "serve/scheduler.h"

#include <algorithm>
#include <ranges>

namespace deltasane::serve {
namespace {

double seconds_between(std::chrono::steady_clock::time_point from,
                       std::chrono::steady_clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

std::string_view finish_label(Ended ended) {
  switch (ended) {
    case Ended::end_of_document:
    case Ended::stop_text:
      return "finished_reason=\"stop\"";
    case Ended::token_limit:
      return "finished_reason=\"length\"";
    case Ended::cancelled:
      return "finished_reason=\"abort\"";
    case Ended::overflow:
      break;
  }
  return "finished_reason=\"error\"";
}

// A slice of prompts takes a GPU some 12 ms, as long as a token of many texts there; a pass over a few
// short ones some 2 ms, in which 64 texts could have written as many tokens. Texts that do not depend
// on others have prompts that are read by themselves.
constexpr int64_t gpu_slice = 4096;
constexpr std::chrono::milliseconds gpu_gather_time{25};

EngineSettings engine_settings(const SchedulerSettings& settings, const LanguageModel& model) {
  const int64_t slice = model.on_gpu() ? gpu_slice : model.prefill_chunk();
  EngineSettings found{.batch = settings.batch,
                       .on_overflow = OnOverflow::end,
                       .batch_invariant = settings.batch_invariant,
                       .tells_beside = true};
  if (settings.batch_invariant) found.prompts_read = 1;
  found.slice_tokens = found.prompt_tokens = slice;
  if (model.on_gpu()) found.gather_time = gpu_gather_time;
  return found;
}

}  // namespace

Scheduler::Scheduler(const LanguageModel& model, const Tokenizer& tokenizer, const kernel::Cpu& cpu,
                     const SchedulerSettings& settings, Metrics& metrics, SessionBoard* board)
    : settings_(settings),
      metrics_(metrics),
      board_(board),
      sane_(to_string(model.sane())),
      engine_(model, tokenizer, cpu, engine_settings(settings, model)),
      prefixes_(settings.prefix_bytes, model.tile()) {
  engine_.on_prompt_read = [this](uint64_t id, LogProbabilities scores) {
    readings_.erase(id);
    job_of(id).job->on_prompt_read(id % prompts_of_job, std::move(scores));
  };
  engine_.on_state_kept = [this](uint64_t id, int64_t after, SequenceState state) {
    const Reading& reading = readings_.at(id);
    prefixes_.keep(reading.owner,
                   std::span(reading.tokens).first(size_t(reading.cached + after)),
                   std::move(state));
  };
  engine_.on_token = [this](const WrittenToken& token) {
    Job& job = job_of(token.request);
    const auto now = Clock::now();
    if (!std::exchange(job.has_written, true))
      metrics_.observe("time_to_first_token_seconds", seconds_between(job.submitted, now));
    else
      metrics_.observe("inter_token_latency_seconds", seconds_between(job.last_token, now));
    job.last_token = now;
    metrics_.add("generation_tokens_total", 1);
    job.job->on_token(token.request % prompts_of_job, token);
  };
  engine_.on_end = [this](GeneratedText text) {
    Job& job = job_of(text.request);
    const uint64_t id = text.request;
    metrics_.add("request_success_total", 1, finish_label(text.ended));
    if (text.ended == Ended::overflow) metrics_.add("overflow_total", 1);
    if (job.texts_left > 0) --job.texts_left;
    if (board_ && board_->has_viewers()) {
      SessionNews news =
          news_of(id, text.sample, text.ended == Ended::overflow ? Phase::overflow : Phase::ended,
                  text.state);
      if (board_->wants_state_of(news)) news.state = text.state.clone();
      board_->take(std::move(news));
    }
    job.job->on_end(id % prompts_of_job, std::move(text));
  };
}

void Scheduler::stop() {
  {
    const std::lock_guard lock(mutex_);
    stops_ = refuses_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void Scheduler::start() {
  thread_ = std::thread([this] { run(); });
}

uint64_t Scheduler::submit(std::shared_ptr<TextJob> job) {
  require(!job->prompts.empty() && job->prompts.size() < prompts_of_job, "a job has prompts");
  uint64_t id;
  {
    const std::lock_guard lock(mutex_);
    if (refuses_) throw ending_refusal();
    if (waiting_ >= settings_.queue)
      throw with_retry(Refusal(429, "queue_full",
                               cat("queue: expected at most ", settings_.queue,
                                   " requests to wait, found as many; try again later")));
    ++waiting_;
    id = ++last_id_;
    submitted_.emplace_back(id, std::move(job));
  }
  changed_.notify_all();
  return id;
}

void Scheduler::cancel(uint64_t job) {
  {
    const std::lock_guard lock(mutex_);
    cancelled_.push_back(job);
  }
  changed_.notify_all();
}

void Scheduler::refuse_further() {
  const std::lock_guard lock(mutex_);
  refuses_ = true;
}

void Scheduler::end_running() {
  {
    const std::lock_guard lock(mutex_);
    refuses_ = ends_running_ = true;
  }
  changed_.notify_all();
}

double Scheduler::seconds_in_step() const {
  const Clock::rep began = step_began_;
  return began == 0 ? 0
                    : seconds_between(Clock::time_point(Clock::duration(began)), Clock::now());
}

void Scheduler::run() {
  try {
    take_turns();
    end_all(ending_refusal());
  } catch (const std::exception& error) {
    // A device that failed, or memory that ran out: what follows cannot be trusted.
    {
      const std::lock_guard lock(mutex_);
      refuses_ = true;
    }
    const std::string message = error.what();
    end_all(Refusal(500, "engine_failed", cat("engine: expected a step, found: ", message)));
    on_fatal(message);
  }
}

void Scheduler::take_turns() {
  bool is_busy = false;
  int64_t tokens_read = 0;
  for (;;) {
    std::vector<std::pair<uint64_t, std::shared_ptr<TextJob>>> submitted;
    std::vector<uint64_t> cancelled;
    bool ends_all;
    {
      std::unique_lock lock(mutex_);
      const auto has_news = [&] {
        return stops_ || ends_running_ || !submitted_.empty() || !cancelled_.empty();
      };
      if (!is_busy && queues_.empty()) changed_.wait(lock, has_news);
      if (stops_) return;
      submitted.swap(submitted_);
      cancelled.swap(cancelled_);
      ends_all = std::exchange(ends_running_, false);
    }
    for (auto& [id, job] : submitted) {
      for (size_t i = 0; i < job->prompts.size(); ++i) job->prompts[i].id = id * prompts_of_job + i;
      size_t texts = 0;
      for (const TextRequest& prompt : job->prompts) texts += prompt.samplers.size();
      queues_[job->owner].push_back(id);
      jobs_[id] = {std::move(job), 0, texts, Clock::now(), {}};
    }
    cancel_jobs(cancelled, Refusal(503, "cancelled", "request: cancelled"));
    if (ends_all) {
      const auto ids = std::views::keys(jobs_);
      cancel_jobs({ids.begin(), ids.end()}, ending_refusal());
    }
    expire();
    while (engine_.has_room() && submit_next()) {
    }
    const auto began = Clock::now();
    step_began_ = began.time_since_epoch().count();
    is_busy = engine_.step();
    step_began_ = 0;
    if (is_busy) metrics_.observe("step_seconds", seconds_between(began, Clock::now()));
    if (const int64_t read = engine_.tokens_read() - tokens_read; read > 0)
      metrics_.add("prompt_tokens_read_total", double(read));
    tokens_read = engine_.tokens_read();
    if (board_) show_sessions();
    for (auto at = jobs_.begin(); at != jobs_.end();) {
      const auto here = at++;
      if (here->second.texts_left == 0) end(here->first, nullptr);
    }
    running_ = jobs_.size();
    metrics_.set("num_requests_running", double(std::ranges::count_if(jobs_, [](const auto& one) {
                   return one.second.has_begun;
                 })));
    metrics_.set("num_requests_waiting", double(std::ranges::count_if(jobs_, [](const auto& one) {
                   return !one.second.has_begun;
                 })));
  }
}

// Texts are named by their job's session, and numbered where there are several.
SessionNews Scheduler::news_of(uint64_t request, size_t sample, Phase phase,
                               const SequenceState& state) {
  const TextJob& job = *job_of(request).job;
  const size_t prompt = request % prompts_of_job;
  std::string id = job.session;
  if (prompt > 0 || sample > 0) id += cat(".", prompt + 1, ".", sample + 1);
  return {.id = std::move(id),
          .owner = job.owner,
          .sane = sane_,
          .phase = phase,
          .position = state.position};
}

void Scheduler::show_sessions() {
  engine_.watch(board_->has_viewers());
  if (!board_->wants_news()) return;
  engine_.visit([&](const ActiveText& text) {
    SessionNews news = news_of(text.request, text.sample,
                               text.is_reading ? Phase::reading : Phase::writing, text.state);
    news.losses.assign(text.losses.begin(), text.losses.end());
    if (board_->wants_state_of(news)) {
      news.state = text.state.clone();
      if (text.taus) news.taus = *text.taus;
    }
    board_->take(std::move(news));
  });
}

// A prompt of the owner whose turn it is.
bool Scheduler::submit_next() {
  if (queues_.empty()) return false;
  auto turn = queues_.upper_bound(last_owner_);
  if (turn == queues_.end()) turn = queues_.begin();
  last_owner_ = turn->first;
  const uint64_t id = turn->second.front();
  Job& job = jobs_.at(id);
  if (!std::exchange(job.has_begun, true)) {
    {
      const std::lock_guard lock(mutex_);
      --waiting_;
    }
    metrics_.observe("request_queue_time_seconds", seconds_between(job.submitted, Clock::now()));
    job.job->on_begin();
  }
  const size_t prompt = job.next_prompt++;
  TextRequest& request = job.job->prompts[prompt];
  if (job.job->source) request.state = job.job->source->clone();
  metrics_.add("prompt_tokens_total", double(request.prompt.size()));
  use_prefix(*job.job, prompt);
  engine_.submit(std::move(request));
  if (job.next_prompt == job.job->prompts.size()) {
    turn->second.pop_front();
    if (turn->second.empty()) queues_.erase(turn);
  }
  return true;
}

// Begins a prompt with a state that has read some of it.
void Scheduler::use_prefix(TextJob& job, size_t prompt) {
  TextRequest& request = job.prompts[prompt];
  if (request.top_prompt || !request.state.is_fresh() || request.state.position > 0) return;
  PrefixTree::Plan plan = prefixes_.plan(job.owner, request.prompt);
  if (plan.keep_after.empty() && !plan.state) return;
  metrics_.add("prefix_cache_queries_total", double(request.prompt.size()));
  metrics_.add("prefix_cache_hits_total", double(plan.cached));
  metrics_.add("prompt_tokens_cached_total", double(plan.cached));
  if (!plan.keep_after.empty())
    readings_[request.id] = {job.owner, request.prompt, plan.cached};
  for (int64_t& place : plan.keep_after) place -= plan.cached;
  request.keep_states_after = std::move(plan.keep_after);
  if (!plan.state) return;
  request.state = plan.state->clone();
  request.prompt.erase(request.prompt.begin(), request.prompt.begin() + plan.cached);
  job.on_prefix_found(prompt, plan.cached);
}

void Scheduler::cancel_jobs(const std::vector<uint64_t>& jobs, const Refusal& why) {
  for (const uint64_t id : jobs) {
    const auto found = jobs_.find(id);
    if (found == jobs_.end()) continue;
    for (size_t i = 0; i < found->second.next_prompt; ++i) {
      engine_.cancel(id * prompts_of_job + i);
      readings_.erase(id * prompts_of_job + i);
    }
    end(id, &why);
  }
}

void Scheduler::expire() {
  std::vector<uint64_t> late;
  for (const auto& [id, job] : jobs_)
    if (!job.has_begun && Clock::now() - job.submitted > settings_.queue_time) late.push_back(id);
  const Refusal why = with_retry(Refusal(503, "queue_time", "queue: waited too long; try again"));
  for (const uint64_t id : late) end(id, &why);
}

void Scheduler::end(uint64_t id, const Refusal* why) {
  const auto found = jobs_.find(id);
  Job job = std::move(found->second);
  jobs_.erase(found);
  if (!job.has_begun) {
    const std::lock_guard lock(mutex_);
    --waiting_;
  }
  const auto queue = queues_.find(job.job->owner);
  if (queue != queues_.end()) {
    std::erase(queue->second, id);
    if (queue->second.empty()) queues_.erase(queue);
  }
  metrics_.observe("e2e_request_latency_seconds", seconds_between(job.submitted, Clock::now()));
  if (why)
    job.job->on_failure(*why);
  else
    job.job->on_done();
}

void Scheduler::end_all(const Refusal& why) {
  std::vector<std::pair<uint64_t, std::shared_ptr<TextJob>>> submitted;
  {
    const std::lock_guard lock(mutex_);
    submitted.swap(submitted_);
    waiting_ -= submitted.size();
  }
  for (const auto& [id, job] : submitted) job->on_failure(why);
  while (!jobs_.empty()) end(jobs_.begin()->first, &why);
}

}  // namespace deltasane::serve
