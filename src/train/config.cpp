#include "train/config.h"

#include <algorithm>
#include <set>
#include <vector>

#include "base/words/nearest_word.h"
#include "format/toml_text.h"
#include "train/config_keys.h"

namespace deltasane::train {
namespace {

constexpr std::string_view sections[]{"model", "corpus", "optimizer", "evaluation", "run"};

// What an unknown key of a section was meant to be: one of the same name elsewhere, one of the section,
// or one of another. Empty: nothing is near.
std::string hint_for(const std::string& section, const std::string& key) {
  std::vector<std::string> own, all;
  for (const ConfigKey& one : config_keys()) {
    if (one.key == key) return cat("; did you mean ", one.section, ".", key, "?");
    if (one.section == section) own.push_back(one.key);
    all.push_back(one.key);
  }
  if (const auto near = nearest_word(key, own)) return cat("; the nearest is '", *near, "'");
  if (const auto near = nearest_word(key, all)) return hint_for(section, *near);
  return "; docs/training-keys.md lists them";
}

// A file, with what overrides have put in place of its lines.
struct Settings {
  std::string name, set_name;  // of the file, and of what stands for its lines
  toml::table table;
  std::set<std::string> set{};  // the keys of overrides, "run.keep"

  // What an error of a key, or of a section, is about.
  std::string where(const std::string& key) const {
    const bool is_set = std::ranges::any_of(
        set, [&](const std::string& one) { return one == key || one.starts_with(cat(key, ".")); });
    return is_set ? set_name : name;
  }
};

// The keys of one section; every one that is read is known.
class Section {
 public:
  Section(const Settings& settings, std::string name) : settings_(&settings), name_(std::move(name)) {
    const toml::node* node = settings.table.get(name_);
    if (!node) return;
    table_ = node->as_table();
    if (!table_)
      fail(Fault::usage, settings.name, ": [", name_, "]: expected a section, found ",
           toml_value_text(*node));
  }

  Section(std::string name, std::vector<ConfigKey>& list) : name_(std::move(name)), list_(&list) {}

  bool has(const char* key) const { return table_ && table_->contains(key); }

  // Reads a key, if it is there. `what` and the value that stands there are for lists of all keys;
  // `unless_given` is the value in words, where it follows from others.
  template <class T>
  void read(const char* key, T& value, const char* what, const char* unless_given = nullptr) {
    known_.insert(key);
    if (list_ != nullptr)
      list_->push_back({name_, key, type_name<T>(),
                        unless_given != nullptr ? unless_given : value_text(value), what});
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
  void between(const char* key, int64_t value, int64_t least, int64_t most) const {
    if (value < least || value > most)
      wrong(key, cat("expected ", least, " to ", most, ", found ", value));
  }
  void at_least(const char* key, double value, double least) const {
    if (!(value >= least)) wrong(key, cat("expected at least ", least, ", found ", value));
  }
  [[noreturn]] void wrong(std::string_view key, const std::string& what) const {
    const std::string full = cat(name_, ".", key);
    fail(Fault::usage, settings_->where(full), ": ", full, ": ", what);
  }
  // All keys were read. False: they are listed, and there is nothing to check.
  bool done() const {
    if (list_ != nullptr) return false;
    if (!table_) return true;
    for (const auto& [key, node] : *table_)
      if (!known_.contains(std::string(key.str())))
        wrong(key.str(), cat("expected a known key, found '", key.str(), "'",
                             hint_for(name_, std::string(key.str()))));
    return true;
  }

 private:
  template <class T>
  static const char* type_name() {
    return std::is_same_v<T, std::string> ? "text"
           : std::is_same_v<T, bool>      ? "true or false"
           : std::is_same_v<T, double>    ? "number"
                                          : "whole number";
  }
  template <class T>
  static std::string value_text(const T& value) {
    if constexpr (std::is_same_v<T, bool>)
      return value ? "true" : "false";
    else if constexpr (std::is_same_v<T, std::string>)
      return value.empty() ? "" : cat('"', value, '"');
    else
      return cat(value);
  }

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
      wrong(key, cat("expected ", expected, ", found ", toml_value_text(node)));
    }
  }

  const Settings* settings_ = nullptr;
  std::string name_;
  const toml::table* table_ = nullptr;
  std::set<std::string> known_;
  std::vector<ConfigKey>* list_ = nullptr;  // where keys are listed, and not read
};

void read_model(Section section, TrainConfig& config) {
  TrainConfig::Model& m = config.model;
  section.read("from", m.from, "a checkpoint to train further; else layers and channels");
  section.read("architecture", m.architecture, "of the model", "the file's, or the first there is");
  section.read("kind", m.kind, "the update rule, for architectures with several", "the first");
  section.read("layers", m.layers, "of a new model", "");
  section.read("channels", m.channels, "of a new model", "");
  section.read("head_size", m.head_size, "channels of a head");
  section.read("beta_scale", m.beta_scale, "of a delta rule: beta is between 0 and this; 2 at most",
               "the kind's own, mostly 1");
  section.read("vocabulary", m.vocabulary, "rows of the embedding", "the tokenizer's");
  section.read("seed", m.initialisation.seed, "of the random weights");
  section.read("decay_bias_shift", m.initialisation.decay_bias_shift,
               "added to the biases of the decay: below 0 the model forgets less");
  section.read("rate_bias_shift", m.initialisation.rate_bias_shift,
               "added to the biases of the in-context learning rate");
  section.read("sane_alpha", m.sane_alpha, "SANE's strength; 0: no SANE");
  section.read("sane_chunk", m.sane_chunk, "tokens between two applications of SANE");
  if (!section.done()) return;
  section.at_least("sane_alpha", m.sane_alpha, 0.0);
  // Far above any model that can be trained; sizes computed from these fit into 64 bits.
  section.between("sane_chunk", m.sane_chunk, 1, int64_t{1} << 30);
  section.between("layers", m.layers, 0, 4096);
  section.between("channels", m.channels, 0, 1 << 16);
  section.between("head_size", m.head_size, 1, 1 << 16);
  section.between("vocabulary", m.vocabulary, 0, 1 << 24);
  if (m.from.empty() && (m.layers == 0 || m.channels == 0))
    section.wrong("from", "expected a model file, or layers and channels, found neither");
  if (!m.from.empty() && (m.layers != 0 || m.channels != 0))
    section.wrong("from", "expected a model file or layers and channels, found both");
  if (!m.from.empty() && !m.kind.empty())
    section.wrong("kind", "expected none with a model file, which has a kind, found one");
}

void read_optimizer(Section section, TrainConfig& config) {
  OptimizerSettings& o = config.optimizer;
  RateSchedule& s = config.schedule;
  std::string kind = "adamw", precision = "fp32";
  section.read("kind", kind, "adamw or muon");
  section.read("precision", precision, "fp32 or bf16");
  config.precision = precision_named(precision);
  o.kind = optimizer_named(kind);
  s.steps = 0;
  section.read("steps", s.steps, "total number of steps", "required");
  section.read("rows", config.rows, "of a step", "sequences x accumulate");
  section.read("sequences", config.sequences, "rows at a time, without rows");
  section.read("context", config.context, "tokens of a row");
  section.read("accumulate", config.accumulate, "micro-batches per step (when optimizer.rows is not set)");
  section.read("rate", s.peak, "the highest learning rate");
  s.first = s.peak / 100, s.last = s.peak / 10, s.warmup = s.steps / 33;
  section.read("first_rate", s.first, "at the first step", "rate / 100");
  section.read("last_rate", s.last, "at the last step", "rate / 10");
  section.read("warmup", s.warmup, "steps until the highest rate", "steps / 33");
  section.read("weight_decay", o.weight_decay, "of matrices");
  section.read("beta1", o.beta1, "of AdamW");
  if (o.kind == OptimizerKind::muon) o.beta2 = muon_beta2, o.epsilon = muon_epsilon;
  section.read("beta2", o.beta2, "of AdamW", "0.99; muon: 0.999");
  section.read("epsilon", o.epsilon, "of AdamW", "1e-18; muon: 1e-7");
  section.read("momentum", o.momentum, "of Muon");
  section.read("clip", config.clip, "the largest norm of a gradient; 0: any");
  section.read("wrap", config.wrap,
               "weight of a loss that keeps the largest logit of each token small");
  if (!section.done()) return;
  if (section.has("rows")) section.between("rows", config.rows, 1, 1 << 30);
  if (section.has("rows") && (section.has("sequences") || section.has("accumulate")))
    section.wrong("rows", "expected the rows of a step, or sequences and accumulate, found both");
  section.between("steps", s.steps, 1, int64_t{1} << 40);
  section.between("sequences", config.sequences, 1, 1 << 20);
  section.between("context", config.context, 1, 1 << 24);
  section.between("accumulate", config.accumulate, 1, 1 << 20);
  section.between("warmup", s.warmup, 0, int64_t{1} << 40);
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
  section.read("every", e.every, "steps between two evaluations; 0: never");
  section.read("source", e.source, "a corpus, for the held-out loss", "");
  section.read("batches", e.batches, "of the held-out corpus");
  section.read("problems", e.problems, "asked for the accuracy of answers");
  section.read("answers", e.answers, "math-chat:..., whose problems are asked", "");
  section.read("longest_answer", e.longest_answer, "tokens of an answer");
  if (!section.done()) return;
  section.at_least("every", e.every, int64_t{0});
  section.between("batches", e.batches, 1, 1 << 30);
  section.between("problems", e.problems, 0, 1 << 30);
  section.between("longest_answer", e.longest_answer, 1, 1 << 30);
  if (e.problems > 0 && !e.answers.starts_with("math-chat:"))
    section.wrong("answers", cat("expected \"math-chat:...\", found '", e.answers, "'"));
}

void read_corpus(Section section, TrainConfig::Corpus& corpus) {
  std::string learn = "all", rows = "packed", side = "left";
  section.read("source", corpus.source,
               "what is learned: math-chat:..., a file, a prepared data set", "required");
  section.read("tokenizer", corpus.tokenizer,
               "byte, a World vocabulary, tokenizer.json, a folder or .gguf with a tokenizer");
  section.read("learn", learn, "all tokens, or answers: those that the corpus marks");
  section.read("rows", rows, "packed, or pieces: one piece in each row, filled up with padding");
  section.read("padding", corpus.padding, "an id that is padding wherever it stands; -1: none");
  section.read("padding_side", side, "left or right: where rows are filled up");
  if (!section.done()) return;
  if (corpus.source.empty()) section.wrong("source", "expected a corpus, found none");
  const auto one_of = [&](const char* key, const std::string& value, const char* first,
                          const char* second) {
    if (value != first && value != second)
      section.wrong(key, cat("expected ", first, " or ", second, ", found '", value, "'"));
    return value == second;
  };
  corpus.answers_only = one_of("learn", learn, "all", "answers");
  corpus.piece_per_row = one_of("rows", rows, "packed", "pieces");
  const bool right = one_of("padding_side", side, "left", "right");
  corpus.padding_side = right ? PaddingSide::right : PaddingSide::left;
  section.at_least("padding", corpus.padding, int64_t{-1});
}

void read_run(Section section, TrainConfig& config) {
  section.read("folder", config.run.folder, "of checkpoints, metrics and report.html", "required");
  section.read("save_every", config.run.save_every,
               "steps between two checkpoints; 0: at the end only");
  section.read("keep", config.run.keep, "checkpoints that are kept");
  section.read("threads", config.run.threads, "0: all processors");
  section.read("metrics_every", config.run.metrics_every,
               "steps between two rows of metrics.jsonl");
  bool recompute = false;
  section.read("recompute", recompute, "keep only each layer's input, and compute the rest again",
               "where activations do not fit");
  if (section.has("recompute")) config.run.recompute = recompute;
  section.read("micro_batch", config.run.micro_batch,
               "rows that a process computes at a time, with optimizer.rows", "as many as fit");
  section.read("device", config.run.device, "cpu, cuda or cuda:N; a run may continue on another");
  section.read("share_gpu", config.run.sums.share_gpu, "whether two processes may use one GPU");
  std::string sums = "best";
  section.read("sums", sums, "of gradients on GPUs: best, nccl or host");
  if (!section.done()) return;
  if (sums != "best" && sums != "nccl" && sums != "host")
    section.wrong("sums", cat("expected best, nccl or host, found '", sums, "'"));
  config.run.sums.backend = sums == "nccl"   ? comm::AllReduceBackend::nccl
                            : sums == "host" ? comm::AllReduceBackend::host
                                             : comm::AllReduceBackend::automatic;
  if (config.run.folder.empty())
    section.wrong("folder", "expected a folder for the run, found none");
  section.at_least("micro_batch", config.run.micro_batch, int64_t{0});
  if (config.run.micro_batch && !config.rows)
    section.wrong("micro_batch", "expected it with optimizer.rows, found sequences and accumulate");
  section.at_least("save_every", config.run.save_every, int64_t{0});
  section.at_least("keep", config.run.keep, int64_t{1});
  section.between("threads", config.run.threads, 0, 1024);
  section.at_least("metrics_every", config.run.metrics_every, int64_t{1});
}

// "section.key=value": the value is TOML where it can be read as such, a text otherwise.
void override_key(Settings& settings, const std::string& text) {
  const size_t dot = text.find('.'), equals = text.find('=');
  if (equals == std::string::npos || dot == 0 || dot > equals || dot + 1 == equals)
    fail(Fault::usage, settings.set_name, ": expected SECTION.KEY=VALUE, found '", text, "'");
  const std::string section = text.substr(0, dot), key = text.substr(dot + 1, equals - dot - 1);
  const std::string value = text.substr(equals + 1);
  toml::table one;
  try {
    one = parse_toml(cat("value = ", value), text);
  } catch (const Error&) {
    one.insert_or_assign("value", value);
  }
  if (one.size() != 1)
    fail(Fault::usage, settings.set_name, ": expected one value, found '", text, "'");
  toml::table& file = settings.table;
  if (!file[section].is_table()) file.insert_or_assign(section, toml::table{});
  file[section].as_table()->insert_or_assign(key, *one.get("value"));
  settings.set.insert(cat(section, ".", key));
}

}  // namespace

TrainConfig read_config(std::string_view text, const std::string& name,
                        std::span<const std::string> overrides,
                        const std::string& overrides_name) {
  Settings settings{name, overrides_name, parse_toml(text, name)};
  for (const std::string& one : overrides) override_key(settings, one);
  for (const auto& [key, node] : settings.table)
    if (std::ranges::find(sections, key.str()) == std::end(sections)) {
      const auto near = nearest_word(key.str(), std::span(sections));
      fail(Fault::usage, settings.where(std::string(key.str())), ": ", key.str(),
           ": expected a known section, found '", key.str(),
           near ? cat("'; the nearest is [", *near, "]")
                : "'; there are [model], [corpus], [optimizer], [evaluation] and [run]");
    }

  TrainConfig config;
  read_model(Section(settings, "model"), config);
  read_corpus(Section(settings, "corpus"), config.corpus);
  read_optimizer(Section(settings, "optimizer"), config);
  read_evaluation(Section(settings, "evaluation"), config);
  for (const auto& [section, key] :
       {std::pair{"optimizer", "beta2"}, {"optimizer", "epsilon"}, {"corpus", "padding_side"}})
    if (!Section(settings, section).has(key)) config.unstated.insert(cat(section, ".", key));
  read_run(Section(settings, "run"), config);
  return config;
}

std::vector<ConfigKey> config_keys() {
  std::vector<ConfigKey> all;
  TrainConfig config;
  read_model(Section("model", all), config);
  read_corpus(Section("corpus", all), config.corpus);
  read_optimizer(Section("optimizer", all), config);
  read_evaluation(Section("evaluation", all), config);
  read_run(Section("run", all), config);
  return all;
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
      {"optimizer.context", cat(context)},
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
  // How the rows of a step are computed is the machine's affair, and changes rounding alone.
  if (rows)
    all["optimizer.rows"] = cat(rows);
  else
    all["optimizer.sequences"] = cat(sequences), all["optimizer.accumulate"] = cat(accumulate);
  if (corpus.piece_per_row && corpus.padding_side == PaddingSide::left)
    all["corpus.padding_side"] = "left";
  if (!model.architecture.empty()) all["model.architecture"] = model.architecture;
  if (!model.kind.empty()) all["model.kind"] = model.kind;
  if (model.beta_scale != 0) all["model.beta_scale"] = cat(model.beta_scale);
  return all;
}

}  // namespace deltasane::train
