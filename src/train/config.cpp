#include "train/config.h"

#include <algorithm>
#include <set>
#include <vector>

#include "base/edit_distance.h"
#include "format/toml_text.h"

namespace deltasane::train {
namespace {

std::string nearest(std::string_view word, const std::set<std::string>& known) {
  return *std::ranges::min_element(
      known, {}, [&](const std::string& one) { return edit_distance(word, one); });
}

// The keys of one section; every one that is read is known.
class Section {
 public:
  Section(const toml::table& file, std::string name, std::string where)
      : name_(std::move(name)), where_(std::move(where)) {
    const toml::node* node = file.get(name_);
    if (!node) return;
    table_ = node->as_table();
    if (!table_) fail(Fault::usage, where_, ": [", name_, "]: expected a section, found a value");
  }

  template <class T>
  void read(const char* key, T& value) {
    known_.insert(key);
    const toml::node* node = table_ ? table_->get(key) : nullptr;
    if (!node) return;
    if constexpr (std::is_same_v<T, std::string>)
      take<std::string>(*node, key, "a text", value);
    else if constexpr (std::is_same_v<T, bool>)
      take<bool>(*node, key, "true or false", value);
    else if constexpr (std::is_same_v<T, double>)
      take<double>(*node, key, "a number", value);
    else
      take<int64_t>(*node, key, "a whole number", value);
  }
  void at_least(const char* key, int64_t value, int64_t least) const {
    if (value < least) wrong(key, cat("expected at least ", least, ", found ", value));
  }
  void at_least(const char* key, double value, double least) const {
    if (!(value >= least)) wrong(key, cat("expected at least ", least, ", found ", value));
  }
  [[noreturn]] void wrong(const char* key, const std::string& what) const {
    fail(Fault::usage, where_, ": ", name_, ".", key, ": ", what);
  }
  void done() const {
    if (!table_) return;
    for (const auto& [key, node] : *table_)
      if (!known_.contains(std::string(key.str())))
        fail(Fault::usage, where_, ": ", name_, ".", key.str(), ": expected a known key, found '",
             key.str(), "'; the nearest is '", nearest(key.str(), known_), "'");
  }

 private:
  template <class Stored, class T>
  void take(const toml::node& node, const char* key, const char* expected, T& value) {
    const auto found = node.value_exact<Stored>();
    if (found) {
      value = T(*found);
      if constexpr (std::is_same_v<T, uint64_t>)
        if (*found < 0) wrong(key, cat("expected at least 0, found ", *found));
    } else if (std::is_same_v<T, double> && node.is_integer()) {
      value = T(*node.value<Stored>());
    } else {
      wrong(key, cat("expected ", expected, ", found another type"));
    }
  }

  std::string name_, where_;
  const toml::table* table_ = nullptr;
  std::set<std::string> known_;
};

void read_model(Section section, TrainConfig& config) {
  TrainConfig::Model& m = config.model;
  section.read("from", m.from);
  section.read("architecture", m.architecture);
  section.read("layers", m.layers);
  section.read("channels", m.channels);
  section.read("head_size", m.head_size);
  section.read("vocabulary", m.vocabulary);
  section.read("seed", m.initialisation.seed);
  section.read("decay_bias_shift", m.initialisation.decay_bias_shift);
  section.read("rate_bias_shift", m.initialisation.rate_bias_shift);
  section.read("sane_alpha", m.sane_alpha);
  section.read("sane_chunk", m.sane_chunk);
  section.done();
  section.at_least("sane_alpha", m.sane_alpha, 0.0);
  section.at_least("sane_chunk", m.sane_chunk, int64_t{1});
  if (m.from.empty() && (m.layers == 0 || m.channels == 0))
    section.wrong("from", "expected a model file, or layers and channels, found neither");
  if (!m.from.empty() && (m.layers != 0 || m.channels != 0))
    section.wrong("from", "expected a model file or layers and channels, found both");
}

void read_optimizer(Section section, TrainConfig& config) {
  OptimizerSettings& o = config.optimizer;
  RateSchedule& s = config.schedule;
  std::string kind = "adamw", precision = "fp32";
  section.read("kind", kind);
  section.read("precision", precision);
  config.precision = precision_named(precision);
  o.kind = optimizer_named(kind);
  s.steps = 0;
  section.read("steps", s.steps);
  section.read("sequences", config.sequences);
  section.read("context", config.context);
  section.read("accumulate", config.accumulate);
  section.read("rate", s.peak);
  s.first = s.peak / 100, s.last = s.peak / 10, s.warmup = s.steps / 33;
  section.read("first_rate", s.first);
  section.read("last_rate", s.last);
  section.read("warmup", s.warmup);
  section.read("weight_decay", o.weight_decay);
  section.read("beta1", o.beta1);
  section.read("beta2", o.beta2);
  section.read("epsilon", o.epsilon);
  section.read("momentum", o.momentum);
  section.read("clip", config.clip);
  section.read("wrap", config.wrap);
  section.done();
  section.at_least("steps", s.steps, int64_t{1});
  section.at_least("sequences", config.sequences, int64_t{1});
  section.at_least("context", config.context, int64_t{1});
  section.at_least("accumulate", config.accumulate, int64_t{1});
  section.at_least("warmup", s.warmup, int64_t{0});
  for (const auto& [key, value] : {std::pair{"rate", s.peak},
                                   {"first_rate", s.first},
                                   {"last_rate", s.last},
                                   {"weight_decay", o.weight_decay},
                                   {"epsilon", o.epsilon},
                                   {"clip", config.clip},
                                   {"wrap", config.wrap}})
    section.at_least(key, value, 0.0);
}

void read_evaluation(Section section, TrainConfig& config) {
  TrainConfig::Evaluation& e = config.evaluation;
  section.read("every", e.every);
  section.read("source", e.source);
  section.read("batches", e.batches);
  section.read("problems", e.problems);
  section.read("answers", e.answers);
  section.read("longest_answer", e.longest_answer);
  section.done();
  section.at_least("every", e.every, int64_t{0});
  section.at_least("batches", e.batches, int64_t{1});
  section.at_least("problems", e.problems, int64_t{0});
  section.at_least("longest_answer", e.longest_answer, int64_t{1});
  if (e.problems > 0 && !e.answers.starts_with("math-chat:"))
    section.wrong("answers", cat("expected \"math-chat:...\", found '", e.answers, "'"));
}

}  // namespace

TrainConfig read_config(std::string_view text, const std::string& name) {
  const toml::table file = parse_toml(text, name);
  const std::set<std::string> sections{"model", "corpus", "optimizer", "evaluation", "run"};
  for (const auto& [key, node] : file)
    if (!sections.contains(std::string(key.str())))
      fail(Fault::usage, name, ": ", key.str(), ": expected a known section, found '", key.str(),
           "'; the nearest is [", nearest(key.str(), sections), "]");

  TrainConfig config;
  read_model(Section(file, "model", name), config);
  Section corpus(file, "corpus", name);
  std::string learn = "all", rows = "packed";
  corpus.read("source", config.corpus.source);
  corpus.read("tokenizer", config.corpus.tokenizer);
  corpus.read("learn", learn);
  corpus.read("rows", rows);
  corpus.read("padding", config.corpus.padding);
  corpus.done();
  if (config.corpus.source.empty()) corpus.wrong("source", "expected a corpus, found none");
  if (learn != "all" && learn != "answers")
    corpus.wrong("learn", cat("expected all or answers, found '", learn, "'"));
  if (rows != "packed" && rows != "pieces")
    corpus.wrong("rows", cat("expected packed or pieces, found '", rows, "'"));
  corpus.at_least("padding", config.corpus.padding, int64_t{-1});
  config.corpus.answers_only = learn == "answers";
  config.corpus.piece_per_row = rows == "pieces";
  read_optimizer(Section(file, "optimizer", name), config);
  read_evaluation(Section(file, "evaluation", name), config);
  Section run(file, "run", name);
  run.read("folder", config.run.folder);
  run.read("save_every", config.run.save_every);
  run.read("keep", config.run.keep);
  run.read("threads", config.run.threads);
  run.read("metrics_every", config.run.metrics_every);
  run.read("recompute", config.run.recompute);
  run.read("device", config.run.device);
  run.read("share_gpu", config.run.sums.share_gpu);
  std::string sums = "best";
  run.read("sums", sums);
  run.done();
  if (sums != "best" && sums != "nccl" && sums != "host")
    run.wrong("sums", cat("expected best, nccl or host, found '", sums, "'"));
  config.run.sums.backend = sums == "nccl"   ? comm::AllReduceBackend::nccl
                       : sums == "host" ? comm::AllReduceBackend::host
                                        : comm::AllReduceBackend::automatic;
  if (config.run.folder.empty()) run.wrong("folder", "expected a folder for the run, found none");
  run.at_least("save_every", config.run.save_every, int64_t{0});
  run.at_least("keep", config.run.keep, int64_t{1});
  run.at_least("threads", config.run.threads, int64_t{0});
  run.at_least("metrics_every", config.run.metrics_every, int64_t{1});
  return config;
}

std::map<std::string, std::string> TrainConfig::identity() const {
  const auto& i = model.initialisation;
  std::map<std::string, std::string> all{
      {"model.from", model.from},
      {"model.layers", cat(model.layers)},
      {"model.channels", cat(model.channels)},
      {"model.head_size", cat(model.head_size)},
      {"model.vocabulary", cat(model.vocabulary)},
      {"model.seed", cat(i.seed)},
      {"model.decay_bias_shift", cat(i.decay_bias_shift)},
      {"model.rate_bias_shift", cat(i.rate_bias_shift)},
      {"model.sane_alpha", cat(model.sane_alpha)},
      {"model.sane_chunk", cat(model.sane_chunk)},
      {"corpus.source", corpus.source},
      {"corpus.tokenizer", corpus.tokenizer},
      {"corpus.learn", corpus.answers_only ? "answers" : "all"},
      {"corpus.rows", corpus.piece_per_row ? "pieces" : "packed"},
      {"corpus.padding", cat(corpus.padding)},
      {"optimizer.kind", std::string(name_of(optimizer.kind))},
      {"optimizer.precision", std::string(name_of(precision))},
      {"optimizer.steps", cat(schedule.steps)},
      {"optimizer.sequences", cat(sequences)},
      {"optimizer.context", cat(context)},
      {"optimizer.accumulate", cat(accumulate)},
      {"optimizer.rate", cat(schedule.peak)},
      {"optimizer.first_rate", cat(schedule.first)},
      {"optimizer.last_rate", cat(schedule.last)},
      {"optimizer.warmup", cat(schedule.warmup)},
      {"optimizer.weight_decay", cat(optimizer.weight_decay)},
      {"optimizer.beta1", cat(optimizer.beta1)},
      {"optimizer.beta2", cat(optimizer.beta2)},
      {"optimizer.epsilon", cat(optimizer.epsilon)},
      {"optimizer.momentum", cat(optimizer.momentum)},
      {"optimizer.clip", cat(clip)},
      {"optimizer.wrap", cat(wrap)}};
  if (!model.architecture.empty()) all["model.architecture"] = model.architecture;
  return all;
}

}  // namespace deltasane::train
