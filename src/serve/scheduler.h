// One thread owns the engine and turns requests of all clients into its batches: continuous
// batching, prompts in slices between the steps of others, the keys in turn, first come first served
// within a key. A request that is cancelled leaves the batch before the next step.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "infer/engine/engine.h"
#include "serve/http/http.h"
#include "serve/metrics.h"
#include "serve/state/prefix_tree.h"
#include "serve/view/session_board.h"

namespace deltasane::serve {

// The texts of one HTTP request. Its functions are called on the engine's thread, in order, and must
// neither block nor throw; after the last of them the scheduler lets go of it.
class TextJob {
 public:
  virtual ~TextJob() = default;

  std::string owner;                 // whose turn it takes
  std::string session;               // what onlookers call it
  std::vector<TextRequest> prompts;  // at least one; ids are set by the scheduler
  // What all its prompts continue from; null: what they say. It is copied on the engine's thread: a
  // device has one queue of work.
  std::shared_ptr<const SequenceState> source;

  virtual void on_begin() {}  // the first prompt is being read
  virtual void on_prefix_found(size_t, int64_t) {}  // so many tokens of a prompt were read before
  virtual void on_prompt_read(size_t, LogProbabilities) {}
  virtual void on_token(size_t prompt, const WrittenToken& token) = 0;
  virtual void on_end(size_t prompt, GeneratedText text) = 0;
  virtual void on_done() = 0;                      // all texts have ended
  virtual void on_failure(const Refusal& why) = 0;  // instead of it
};

struct SchedulerSettings {
  int64_t batch = 64;   // texts at a time
  size_t queue = 256;   // requests that wait
  std::chrono::milliseconds queue_time{60'000};
  bool batch_invariant = false;
  uint64_t prefix_bytes = 0;  // of states of earlier prompts
};

class Scheduler {
 public:
  Scheduler(const LanguageModel& model, const Tokenizer& tokenizer, const kernel::Cpu& cpu,
            const SchedulerSettings& settings, Metrics& metrics, SessionBoard* board = nullptr);
  ~Scheduler() { stop(); }

  // From any thread. Throws Refusal where the queue is full or the server ends.
  uint64_t submit(std::shared_ptr<TextJob> job);
  void cancel(uint64_t job);
  void refuse_further();  // the server ends: what is submitted from now on is refused
  void end_running();     // and what runs or waits fails

  // The engine failed (the text says how): nothing that it computes can be trusted any more.
  std::function<void(const std::string&)> on_fatal = [](const std::string&) {};
  void start();  // after these were set
  // Ends all jobs and joins the thread: before anything is destroyed that a job replies to.
  void stop();

  double seconds_in_step() const;  // of the step that runs now; 0: none does
  size_t running() const { return running_; }

 private:
  using Clock = std::chrono::steady_clock;
  struct Job {
    std::shared_ptr<TextJob> job;
    size_t next_prompt = 0, texts_left = 0;
    Clock::time_point submitted, last_token;
    bool has_begun = false, has_written = false;
  };

  void run();
  void take_turns();
  bool submit_next();
  void use_prefix(TextJob& job, size_t prompt);
  void cancel_jobs(const std::vector<uint64_t>& jobs, const Refusal& why);
  void expire();
  void end(uint64_t id, const Refusal* why);
  void end_all(const Refusal& why);
  void show_sessions();
  SessionNews news_of(uint64_t request, size_t sample, Phase phase, const SequenceState& state);
  Job& job_of(uint64_t request) { return jobs_.at(request / prompts_of_job); }

  static constexpr uint64_t prompts_of_job = 1 << 16;

  const SchedulerSettings settings_;
  Metrics& metrics_;
  SessionBoard* const board_;
  const std::string sane_;
  Engine engine_;

  std::mutex mutex_;  // of what follows
  std::condition_variable changed_;
  std::vector<std::pair<uint64_t, std::shared_ptr<TextJob>>> submitted_;
  std::vector<uint64_t> cancelled_;
  uint64_t last_id_ = 0;
  size_t waiting_ = 0;  // jobs that have not begun
  bool refuses_ = false, ends_running_ = false, stops_ = false;

  // Of the engine's thread.
  std::map<uint64_t, Job> jobs_;
  std::map<std::string, std::deque<uint64_t>> queues_;  // by owner: jobs with prompts to submit
  std::string last_owner_;
  PrefixTree prefixes_;
  struct Reading {
    std::string owner;
    std::vector<int32_t> tokens;  // of the whole prompt
    int64_t cached;
  };
  std::map<uint64_t, Reading> readings_;  // by request: prompts of which states are kept

  std::atomic<Clock::rep> step_began_{0};
  std::atomic<size_t> running_{0};
  std::thread thread_;
};

}  // namespace deltasane::serve
