#include "serve/route/state_upload.h"

#include <cmath>

#include "serve/wire/token_text.h"

namespace deltasane::serve {
namespace {

constexpr size_t waiting_pieces = 4;
constexpr size_t most_records = 256;

// Where to cut a text that may continue: after its last line, or before a character that is not whole.
size_t cut_of(std::string_view text) {
  const size_t line = text.rfind('\n');
  if (line != text.npos) return line + 1;
  size_t end = text.size();
  while (end > 1 && text.size() - end < 4 && (static_cast<unsigned char>(text[end - 1]) & 0xc0) == 0x80)
    --end;
  return end > 1 && static_cast<unsigned char>(text[end - 1]) >= 0xc0 ? end - 1 : text.size();
}

double norm_of(const SequenceState& state) {
  double squares = 0;
  for (const StateHead& head : state.layout().heads())
    for (const float entry : state.of(head)) squares += double(entry) * double(entry);
  return std::sqrt(squares);
}

}  // namespace

// The reading of one piece.
class StateUpload::Piece final : public TextJob {
 public:
  explicit Piece(std::shared_ptr<StateUpload> upload) : upload_(std::move(upload)) {
    owner = upload_->owner_, session = upload_->session_;
  }
  void on_prompt_read(size_t, LogProbabilities scores) override {
    for (const double one : scores.tokens) loss_ -= one;
    scored_ = int64_t(scores.tokens.size());
  }
  void on_token(size_t, const WrittenToken&) override {}
  void on_end(size_t, GeneratedText text) override { state_ = std::move(text.state); }
  void on_done() override { upload_->take_piece(std::move(state_), loss_, scored_); }
  void on_failure(const Refusal& why) override {
    const std::lock_guard lock(upload_->mutex_);
    upload_->is_reading_ = false;
    upload_->fail_with(why);
  }

 private:
  std::shared_ptr<StateUpload> upload_;
  SequenceState state_;
  double loss_ = 0;
  int64_t scored_ = 0;
};

StateUpload::StateUpload(Service& service, std::string owner, const std::string& id,
                         std::function<void()> resume)
    : service_(service),
      owner_(std::move(owner)),
      session_(id == "new" ? random_id("read_") : id),
      resume_(std::move(resume)),
      piece_bytes_(service.settings.upload_piece_bytes),
      state_(service.model.fresh_state()),
      begins_document_(id == "new") {
  if (id == "new") return;
  KeptState kept = service.states.find(owner_, id);
  from_ = std::move(kept.state);
  unread_ = std::move(kept.unread);
}

bool StateUpload::take(std::string piece) {
  const std::lock_guard lock(mutex_);
  if (failure_) throw Refusal(*failure_);
  text_ += piece;
  begin_piece();
  return text_.size() < waiting_pieces * piece_bytes_;
}

void StateUpload::abandon() {
  is_abandoned_ = true;
  if (job_ != 0) service_.scheduler.cancel(job_);
}

void StateUpload::finish(std::shared_ptr<Exchange> exchange) {
  exchange->on_gone([self = weak_from_this()] {
    if (const auto here = self.lock()) here->abandon();
  });
  const std::lock_guard lock(mutex_);
  exchange_ = std::move(exchange);
  is_whole_ = true;
  if (failure_) return fail_with(Refusal(*failure_));
  begin_piece();
}

void StateUpload::begin_piece() {
  if (is_reading_ || is_abandoned_ || failure_) return;
  if (text_.size() < piece_bytes_ && !is_whole_) return;
  if (text_.empty() && unread_.empty()) return keep();
  const std::string_view all(text_);
  const size_t end = text_.size() <= piece_bytes_ && is_whole_ ? text_.size()
                                                               : cut_of(all.substr(0, piece_bytes_));
  try {
    begin_tokens(all.substr(0, end));
    text_.erase(0, end);
  } catch (const Refusal& refusal) {  // a queue that is full
    fail_with(refusal);
  } catch (const Error& error) {  // bytes that the tokenizer does not take
    fail_with(Refusal(400, "invalid_value", error.what()));
  }
}

void StateUpload::begin_tokens(std::string_view text) {
  const std::vector<int32_t> ids =
      encode_text(service_.tokenizer, std::string(text), std::exchange(begins_document_, false));
  TextRequest request{0, std::move(state_), std::move(unread_), {Sampler(SamplerSettings())}};
  unread_.clear();
  request.prompt.insert(request.prompt.end(), ids.begin(), ids.end());
  request.limits = TextLimits{{}, 0};
  request.top_prompt = 0;
  tokens_ += int64_t(ids.size());
  auto piece = std::make_shared<Piece>(shared_from_this());
  piece->prompts.push_back(std::move(request));
  piece->source = std::exchange(from_, nullptr);
  is_reading_ = true;
  job_ = service_.scheduler.submit(std::move(piece));
  if (is_abandoned_) service_.scheduler.cancel(job_);
}

void StateUpload::fail_with(const Refusal& why) {
  failure_.emplace(why);
  text_.clear();
  if (exchange_) std::exchange(exchange_, nullptr)->reply(error_reply(why));
  resume_();
}

// On the engine's thread.
void StateUpload::take_piece(SequenceState state, double loss, int64_t scored) {
  const StateScan scan = scan_state(state);
  const std::lock_guard lock(mutex_);
  is_reading_ = false;
  if (!scan.finite())
    return fail_with(
        Refusal(500, "state_overflow", overflow_message(*scan.not_finite, state.position - 1)));
  state_ = std::move(state);
  loss_ += loss, scored_ += scored;
  if (records_.size() == most_records) {  // every second stays
    Json fewer = Json::array();
    for (size_t i = 1; i < most_records; i += 2) fewer.push_back(std::move(records_[i]));
    records_ = std::move(fewer);
  }
  records_.push_back({{"position", state_.position},
                      {"loss", scored > 0 ? Json(loss / double(scored)) : Json(nullptr)},
                      {"norm", norm_of(state_)},
                      {"largest", scan.largest}});
  begin_piece();
  resume_();
}

void StateUpload::keep() {
  if (tokens_ == 0)
    return fail_with(Refusal(400, "invalid_value", "body: expected a text, found none"));
  service_.states.keep_later(
      owner_, std::move(state_), {},
      [self = shared_from_this()](const std::string& id, const Refusal* why) {
        const std::lock_guard lock(self->mutex_);
        if (why) return self->fail_with(*why);
        if (!self->exchange_) return;
        const StateRecord record = self->service_.states.describe(self->owner_, id);
        const Json reply{{"id", id},
                         {"object", "state"},
                         {"created", record.created},
                         {"position", record.position},
                         {"bytes", record.bytes},
                         {"tokens", self->tokens_},
                         {"loss", self->scored_ > 0 ? Json(self->loss_ / double(self->scored_)) : Json(nullptr)},
                         {"records", self->records_}};
        std::exchange(self->exchange_, nullptr)->reply({200, "application/json", dump(reply), {}});
      });
}

}  // namespace deltasane::serve
