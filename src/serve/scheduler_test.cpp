#include "serve/scheduler.h"

#include <gtest/gtest.h>

#include <future>

#include "serve/fixture_service.h"

namespace deltasane::serve {
namespace {

// A model whose device fails in a step.
class FailingModel final : public LanguageModel {
 public:
  FailingModel(const LanguageModel& real, int64_t steps)
      : LanguageModel(real.description(), StateLayout(*real.state_layout()), real.sane(), {}),
        real_(real),
        left_(steps) {}
  const ModelCheckpoint& checkpoint() const override { return real_.checkpoint(); }
  std::string weight_type() const override { return real_.weight_type(); }
  uint64_t weight_bytes() const override { return real_.weight_bytes(); }
  uint64_t read_bytes() const override { return real_.read_bytes(); }
  int64_t prefill_chunk() const override { return real_.prefill_chunk(); }

 private:
  void run(std::span<const SequenceInput> batch, const kernel::Cpu& cpu) const override {
    if (left_-- <= 0) fail(Fault::device, "GPU: lost");
    real_.forward(batch, cpu);
  }
  const LanguageModel& real_;
  mutable std::atomic<int64_t> left_;
};

struct CountingJob final : TextJob {
  std::promise<int> end;  // 200, or the status of a failure
  void on_token(size_t, const WrittenToken&) override {}
  void on_end(size_t, GeneratedText) override {}
  void on_done() override { end.set_value(200); }
  void on_failure(const Refusal& why) override { end.set_value(why.status); }
};

std::shared_ptr<CountingJob> job_of(const LanguageModel& model, const std::string& owner,
                                    int64_t tokens) {
  auto job = std::make_shared<CountingJob>();
  job->owner = owner;
  TextRequest request{0, model.fresh_state(), {65, 66, 67}, {Sampler(SamplerSettings())}};
  request.limits = TextLimits{{}, tokens, false};
  job->prompts.push_back(std::move(request));
  return job;
}

TEST(Scheduler, TellsEverybodyWhenTheDeviceFails) {
  const test::ServiceFixture fixture;
  const FailingModel model(*fixture.model, 10);
  Metrics metrics;
  ThreadPool threads{1};
  Scheduler scheduler(model, fixture.tokenizer, {threads}, {.batch = 2}, metrics);
  std::promise<std::string> fatal;
  scheduler.on_fatal = [&](const std::string& message) { fatal.set_value(message); };
  std::vector<std::shared_ptr<CountingJob>> jobs;
  for (int i = 0; i < 5; ++i) jobs.push_back(job_of(model, "a", 1000));
  for (const auto& job : jobs) scheduler.submit(job);
  scheduler.start();
  for (const auto& job : jobs) EXPECT_EQ(job->end.get_future().get(), 500);
  EXPECT_EQ(fatal.get_future().get(), "GPU: lost");
  EXPECT_THROW(scheduler.submit(job_of(model, "a", 1)), Refusal);
}

// A key with many requests does not hold up one with few.
TEST(Scheduler, TakesTheKeysInTurn) {
  const test::ServiceFixture fixture;
  Metrics metrics;
  ThreadPool threads{1};
  Scheduler scheduler(*fixture.model, fixture.tokenizer, {threads}, {.batch = 1}, metrics);
  std::vector<std::string> order;
  struct OrderedJob final : TextJob {
    std::vector<std::string>* order = nullptr;
    std::promise<void> end;
    void on_begin() override { order->push_back(owner); }
    void on_token(size_t, const WrittenToken&) override {}
    void on_end(size_t, GeneratedText) override {}
    void on_done() override { end.set_value(); }
    void on_failure(const Refusal&) override { end.set_value(); }
  };
  std::vector<std::shared_ptr<OrderedJob>> jobs;
  for (const char* const owner : {"a", "a", "a", "a", "b", "c"}) {
    jobs.push_back(std::make_shared<OrderedJob>());
    jobs.back()->order = &order;
    jobs.back()->owner = owner;
    jobs.back()->prompts = std::move(job_of(*fixture.model, owner, 2)->prompts);
    scheduler.submit(jobs.back());
  }
  scheduler.start();
  for (const auto& job : jobs) job->end.get_future().get();
  EXPECT_EQ(order, (std::vector<std::string>{"a", "b", "c", "a", "a", "a"}));
}

TEST(Scheduler, GivesUpOnRequestsThatWaitTooLong) {
  const test::ServiceFixture fixture;
  Metrics metrics;
  ThreadPool threads{1};
  Scheduler scheduler(*fixture.model, fixture.tokenizer, {threads},
                      {.batch = 1, .queue_time = std::chrono::milliseconds(50)}, metrics);
  const auto first = job_of(*fixture.model, "a", 100'000'000), late = job_of(*fixture.model, "a", 1);
  const uint64_t id = scheduler.submit(first);
  scheduler.start();
  scheduler.submit(late);
  EXPECT_EQ(late->end.get_future().get(), 503);
  scheduler.cancel(id);
  EXPECT_EQ(first->end.get_future().get(), 503);
}

}  // namespace
}  // namespace deltasane::serve
