#include "cli/serve/live_demo.h"

#include <fmt/format.h>

#include "corpus/source.h"
#include "eval/stream/problem_probe.h"
#include "model/registry.h"

namespace deltasane::cli {
namespace {

constexpr int64_t slice = 512;           // tokens between two looks
constexpr int64_t between_probes = 8192;
constexpr int64_t questions = 32, shown_questions = 6;
constexpr size_t shown_losses = 512;

// One of the two models, on its stream.
class Reader {
 public:
  Reader(std::string name, const LanguageModel& model, const serve::Service& service,
         const DemoTask& task, const corpus::Source& source, ThreadPool& threads)
      : name_(std::move(name)),
        model_(model),
        cpu_{threads},
        stream_(source, service.tokenizer),
        probe_{model, service.tokenizer, cpu_, corpus::math_options(task.problems), 12},
        state_(model.fresh_state()),
        taus_(*model.state_layout()) {
    stream_.read({&next_, 1});
  }

  void read() {
    if (has_overflow_) return;
    std::vector<int32_t> tokens(size_t(slice) + 1, next_);
    stream_.read(std::span(tokens).subspan(1));
    next_ = tokens.back();
    std::vector<double> losses(static_cast<size_t>(slice));
    const std::span<const int32_t> all = tokens;
    deltasane::score(model_, all.first(size_t(slice)), all.subspan(1), state_, losses, cpu_, &taus_);
    losses_ = std::move(losses);
    has_overflow_ = !scan_state(state_).finite();
  }

  void ask() {
    right_.push_back(0);
    answers_ = serve::Json::array();
    asked_.clear();
    for (const AskedProblem& one : probe_.ask(state_, questions)) {
      right_.back() += double(one.right) / double(questions);
      if (int64_t(asked_.size()) == shown_questions) continue;
      asked_.push_back(one.question);
      std::string text = one.written.substr(0, 16);
      for (char& c : text)
        if (uint8_t(c) < 32 || uint8_t(c) > 126) c = '?';
      answers_.push_back({{"text", text}, {"right", one.right}});
    }
  }

  serve::SessionNews news(bool is_over) const {
    serve::SessionNews news{.id = name_,
                            .owner = std::nullopt,
                            .sane = to_string(model_.sane()),
                            .phase = has_overflow_ ? serve::Phase::overflow
                                     : is_over     ? serve::Phase::ended
                                                   : serve::Phase::reading,
                            .position = state_.position,
                            .losses = losses_,
                            .state = state_.clone()};
    if (model_.sane().kind != SaneKind::none) news.taus = taus_;
    return news;
  }

  serve::Json story() const { return {{"name", name_}, {"right", right_}, {"answers", answers_}}; }
  const std::vector<std::string>& asked() const { return asked_; }
  double last_right() const { return right_.back(); }

 private:
  const std::string name_;
  const LanguageModel& model_;
  kernel::Cpu cpu_;
  corpus::TokenStream stream_;
  ProblemProbe probe_;
  SequenceState state_;
  TauRecord taus_;
  int32_t next_ = 0;
  std::vector<double> losses_, right_;
  std::vector<std::string> asked_;
  serve::Json answers_;
  bool has_overflow_ = false;
};

std::string percent(double part) { return cat(int64_t(part * 100 + 0.5), " %"); }

}  // namespace

LiveDemo::LiveDemo(DemoPair pair, serve::Service& service, int threads)
    : pair_(std::move(pair)), service_(service), thread_count_(threads) {
  service_.board.on_first_viewer = [this] {
    thread_ = std::thread([this] {
      try {
        run();
      } catch (const std::exception& error) {  // the server goes on without it
        fmt::print(stderr, "deltasane: demonstration: {}\n", error.what());
      }
    });
  };
}

LiveDemo::~LiveDemo() {
  service_.board.close();  // nobody begins it from here on
  stops_ = true;
  if (thread_.joinable()) thread_.join();
}

void LiveDemo::run() {
  ThreadPool threads(thread_count_);
  const std::unique_ptr<LanguageModel> baseline_model = open_model(pair_.baseline, {});
  const std::unique_ptr<corpus::Source> source = corpus::open_source(pair_.task.corpus);
  Reader baseline("without-SANE", *baseline_model, service_, pair_.task, *source, threads);
  Reader sane("with-SANE", service_.model, service_, pair_.task, *source, threads);
  std::vector<int64_t> asked_at;
  const auto tell = [&](int64_t position) {
    std::string text =
        "Two small models learned sums and differences in contexts of 512 bytes. Both now read one "
        "endless text, each with a state that is never reset. One has no bound on its state; the "
        "other is the same model, trained for 300 more steps with SANE, which bounds every entry.";
    if (position >= pair_.task.tokens)
      text += cat(" Both have read ", position, " bytes: without SANE ", percent(baseline.last_right()),
                  " of the answers are right, with SANE ", percent(sane.last_right()), ".");
    service_.board.tell({{"title", "A state that explodes, and one that is held"},
                         {"text", text},
                         {"position", position},
                         {"tokens", pair_.task.tokens},
                         {"asked_at", asked_at},
                         {"questions", sane.asked()},
                         {"models", serve::Json::array({baseline.story(), sane.story()})}});
  };
  for (int64_t position = 0;; position += slice) {
    const bool is_over = position >= pair_.task.tokens;
    if (position % between_probes == 0 || is_over) {
      asked_at.push_back(position);
      baseline.ask(), sane.ask();
    }
    tell(position);
    service_.board.take(baseline.news(is_over));
    service_.board.take(sane.news(is_over));
    if (is_over || stops_) return;
    baseline.read(), sane.read();
    service_.metrics.add("prompt_tokens_read_total", double(2 * slice));
  }
}

}  // namespace deltasane::cli
