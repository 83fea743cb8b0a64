#include "eval/run/batch_sampler.h"

#include <algorithm>
#include <memory>
#include <optional>

#include "base/error.h"
#include "infer/batch_step.h"
#include "text/text_stop.h"
#include "text/utf8_stream.h"

namespace deltasane::eval {
namespace {

constexpr int64_t least_rows = kernel::matmul_few_tokens + 1;

// A text being written.
struct Writing {
  size_t request;
  RecurrentState state;
  Sampler sampler;
  Utf8Stream characters;
  TextStop stop;
  Sample sample;
  int32_t token = 0;  // picked, and to be read by the next step
  std::optional<Ended> ended;

  Writing(size_t index, const RecurrentState& from, const BatchSettings& settings, uint64_t stream)
      : request(index),
        state(from.clone()),
        sampler(settings.sampler, stream),
        stop(settings.stops) {}

  void take(std::optional<int32_t> picked, const Tokenizer& tokenizer, int64_t limit) {
    if (!picked) return end(Ended::overflow);
    token = *picked;
    ++sample.tokens;
    if (token == tokenizer.end_of_document()) return end(Ended::end_of_document);
    sample.text += stop.feed(characters.feed(tokenizer.bytes_of(token)));
    if (stop.stopped()) return end(Ended::stop_text);
    if (sample.tokens >= limit) end(Ended::token_limit);
  }

  void end(Ended how) {
    ended = sample.ended = how;
    if (how == Ended::stop_text) return;
    sample.text += stop.feed(characters.finish());
    sample.text += stop.finish();
  }
};

class Batch {
 public:
  Batch(const SampledModel& sampled, const BatchSettings& settings)
      : sampled_(sampled),
        settings_(settings),
        step_(sampled.model, sampled.cpu),
        prompt_logits_({1, sampled.model.shape().vocabulary}) {}

  void read_prompt(size_t prompt, const std::vector<int32_t>& tokens) {
    require(!tokens.empty(), "a prompt has tokens");
    prompt_ = prompt;
    prompt_state_ = sampled_.prefix.clone();
    sampled_.model.forward(tokens, prompt_state_, Rwkv7::Logits::last, prompt_logits_.view(),
                           sampled_.cpu);
  }
  std::optional<size_t> prompt() const { return prompt_; }

  bool full() const { return int64_t(writings_.size()) >= settings_.batch; }
  bool empty() const { return writings_.empty(); }

  void begin(size_t request, uint64_t stream) {
    writings_.push_back(std::make_unique<Writing>(request, prompt_state_, settings_, stream));
    Writing& one = *writings_.back();
    one.take(one.sampler.next_if_finite(prompt_logits_.span(), one.state.position),
             sampled_.tokenizer, settings_.tokens);
  }

  void step() {
    std::vector<SteppedSequence> rows;
    for (const auto& writing : writings_)
      rows.push_back({writing->token, &writing->state, &writing->sampler, {}});
    for (size_t i = 0; int64_t(rows.size()) < least_rows; ++i) {
      if (i == padding_.size())
        padding_.push_back(std::make_unique<RecurrentState>(sampled_.model.fresh_state()));
      rows.push_back({0, padding_[i].get(), nullptr, {}});
    }
    step_.step(rows);
    sampled_.cpu.threads.parallel(int64_t(writings_.size()), [&](int64_t i) {
      writings_[size_t(i)]->take(rows[size_t(i)].next, sampled_.tokenizer, settings_.tokens);
    });
  }

  void hand_out(const std::function<void(size_t, const Sample&)>& done) {
    for (const auto& writing : writings_)
      if (writing->ended) done(writing->request, writing->sample);
    std::erase_if(writings_, [](const auto& writing) { return writing->ended.has_value(); });
  }

 private:
  const SampledModel& sampled_;
  const BatchSettings& settings_;
  BatchStep step_;
  Tensor<float> prompt_logits_;
  std::optional<size_t> prompt_;
  RecurrentState prompt_state_;
  std::vector<std::unique_ptr<Writing>> writings_;
  std::vector<std::unique_ptr<RecurrentState>> padding_;
};

}  // namespace

std::string_view name_of(Ended ended) {
  constexpr std::string_view names[]{"end of document", "stop text", "token limit", "overflow"};
  return names[size_t(ended)];
}

void sample_all(const SampledModel& sampled, const BatchSettings& settings,
                std::span<const Request> requests,
                const std::function<std::vector<int32_t>(size_t)>& prompt,
                const std::function<void(size_t, const Sample&)>& done) {
  validate(settings.sampler);
  if (settings.batch < 1 || settings.batch > 512)
    fail(Fault::usage, "--batch: expected 1 to 512 sequences, found ", settings.batch);
  if (settings.tokens < 1)
    fail(Fault::usage, "--tokens: expected at least 1, found ", settings.tokens);
  Batch batch(sampled, settings);
  for (size_t next = 0; next < requests.size() || !batch.empty();) {
    for (; next < requests.size() && !batch.full(); ++next) {
      const Request& request = requests[next];
      if (batch.prompt() != request.prompt)
        batch.read_prompt(request.prompt, prompt(request.prompt));
      batch.begin(next, request.stream);
    }
    batch.hand_out(done);  // some end with their first token
    if (!batch.empty()) batch.step();
    batch.hand_out(done);
  }
}

}  // namespace deltasane::eval
