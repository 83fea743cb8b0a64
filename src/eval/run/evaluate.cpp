#include "eval/run/evaluate.h"

#include <xxhash.h>
#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "base/hexadecimal.h"
#include "base/io/folder_lock.h"
#include "base/io/seal.h"
#include "base/io/temporary_file.h"
#include "base/json/array_at.h"
#include "eval/run/journal.h"

namespace deltasane::eval {
namespace {

// Changes with every question, gold answer and instruction.
std::string digest_of(const Benchmark& benchmark) {
  std::string all = benchmark.instruction;
  for (const Problem& problem : benchmark.problems)
    all += cat('\0', problem.row, '\0', problem.question, '\0', problem.gold);
  return hexadecimal(XXH64(all.data(), all.size(), 0));
}

std::string digest_of(const SequenceState& state) {
  uint64_t digest = uint64_t(state.position);
  const auto add = [&](std::span<const float> numbers) {
    digest = XXH64(numbers.data(), numbers.size_bytes(), digest);
  };
  add(state.fixed());
  for (int64_t i = 0; i < state.layout().caches(); ++i) add(state.cache(i));
  return hexadecimal(digest);
}

// A problem of this shard and the samples of it that are there.
struct OpenProblem {
  const Benchmark* benchmark;
  const Problem* problem;
  std::vector<std::string> texts;
  std::vector<bool> written;
  bool voted = false;

  ProblemKey key() const { return {benchmark->name, problem->row}; }
  bool complete() const { return std::ranges::find(written, false) == written.end(); }
};

// The folder, held by this process, with the settings in it.
struct OwnedFolder {
  OwnedFolder(const fs::path& folder, const std::string& settings, ChangedFiles changed)
      : lock(folder) {
    remove_abandoned(folder);
    claim_folder(folder, settings, changed);
  }
  FolderLock lock;
};

class RunInProgress {
 public:
  RunInProgress(const std::vector<Benchmark>& suite, const EvaluationSettings& settings,
                const std::string& settings_text, const fs::path& folder,
                const std::function<void(const EvaluationProgress&)>& progress)
      : folder_(folder, settings_text, settings.changed),
        samples_file_(folder / "samples.jsonl"),
        problems_file_(folder / "problems.jsonl"),
        progress_(progress) {
    int64_t number = 0;
    for (const Benchmark& benchmark : suite)
      for (const Problem& problem : benchmark.problems) {
        if (number++ % settings.shard.count != settings.shard.index) continue;
        index_[{benchmark.name, problem.row}] = open_.size();
        open_.push_back({&benchmark, &problem, std::vector<std::string>(size_t(settings.samples)),
                         std::vector<bool>(size_t(settings.samples)), false});
        ++counts_[benchmark.name].problems;
      }
    read_samples(folder / "samples.jsonl");
    read_problems(folder / "problems.jsonl");
    for (size_t i = 0; i < open_.size(); ++i)
      if (open_[i].complete()) vote_on(i);
  }

  const OpenProblem& problem(size_t i) const { return open_[i]; }

  // What is still to be sampled; request i is sample wanted[i].second of problem wanted[i].first.
  std::vector<std::pair<size_t, int64_t>> wanted() const {
    std::vector<std::pair<size_t, int64_t>> found;
    for (size_t i = 0; i < open_.size(); ++i)
      for (size_t sample = 0; sample < open_[i].written.size(); ++sample)
        if (!open_[i].written[sample]) found.emplace_back(i, int64_t(sample));
    return found;
  }

  void take(size_t problem, int64_t number, const GeneratedText& sample) {
    OpenProblem& open = open_[problem];
    samples_file_.append(to_json(SampleRow{open.key(), number, sample.text,
                                           std::string(name_of(sample.ended)), sample.tokens}));
    open.texts[size_t(number)] = sample.text;
    open.written[size_t(number)] = true;
    tokens_ += sample.tokens;
    if (open.complete()) vote_on(problem);
  }

  void flush() {
    samples_file_.flush();
    problems_file_.flush();
  }

 private:
  struct Counts {
    int64_t done = 0, problems = 0, correct = 0;
  };

  void read_samples(const fs::path& file) {
    size_t number = 0;
    for (const std::string& line : read_journal(file)) {
      SampleRow row = sample_from_json(line, cat(file.string(), ":", ++number));
      const auto at = index_.find(row.problem);
      if (at == index_.end()) continue;
      OpenProblem& open = open_[at->second];
      if (row.sample < 0 || row.sample >= int64_t(open.written.size())) continue;
      open.texts[size_t(row.sample)] = std::move(row.text);
      open.written[size_t(row.sample)] = true;
    }
  }

  void read_problems(const fs::path& file) {
    size_t number = 0;
    for (const std::string& line : read_journal(file)) {
      const ProblemRow row = problem_from_json(line, cat(file.string(), ":", ++number));
      const auto at = index_.find(row.problem);
      if (at == index_.end() || open_[at->second].voted) continue;
      open_[at->second].voted = true;
      count(row.problem.first, row.correct);
    }
  }

  void vote_on(size_t index) {
    OpenProblem& open = open_[index];
    if (!open.voted) {
      const Vote found = vote(open.problem->gold, open.texts, open.benchmark->check);
      problems_file_.append(to_json(open.key(), open.problem->gold, found));
      open.voted = true;
      count(open.benchmark->name, found.verdict == answers::Verdict::same);
      const Counts& counts = counts_[open.benchmark->name];
      progress_({open.benchmark->title, counts.done, counts.problems, counts.correct, all_done_,
                 int64_t(open_.size()), tokens_});
    }
    open.texts.assign(open.texts.size(), {});  // not needed any more, and there are many
  }

  void count(const std::string& benchmark, bool correct) {
    Counts& counts = counts_[benchmark];
    ++counts.done;
    ++all_done_;
    counts.correct += correct;
  }

  OwnedFolder folder_;
  Journal samples_file_, problems_file_;
  const std::function<void(const EvaluationProgress&)>& progress_;
  std::vector<OpenProblem> open_;
  std::map<ProblemKey, size_t> index_;
  std::map<std::string, Counts> counts_;
  int64_t all_done_ = 0, tokens_ = 0;
};

bool all_shards_done(const fs::path& out, const Shard& shard) {
  for (int64_t i = 0; i < shard.count; ++i)
    if (!fs::exists(shard_folder(out, {i, shard.count}) / "run.json")) return false;
  return read_run(out).complete();
}

}  // namespace

uint64_t sample_stream(const ProblemKey& problem, int64_t sample) {
  const std::string name = cat(problem.first, '\0', problem.second, '\0', sample);
  return XXH64(name.data(), name.size(), 0);
}

std::string settings_json(const EvaluatedModel& model, const Prefix& prefix,
                          const std::vector<Benchmark>& suite, const EvaluationSettings& settings) {
  const SamplerSettings& sampler = settings.batch.sampler;
  const SaneUse& sane = model.model.sane();
  nlohmann::ordered_json json{
      {"model", model.name},
      {"model_identity", hexadecimal(model.model.identity())},
      {"weights", model.model.weight_type()},
      {"sane", {{"kind", name_of(sane.kind)}, {"alpha", sane.alpha}, {"chunk", sane.chunk}}},
      {"tokenizer", model.tokenizer.name()},
      {"tokenizer_digest", hexadecimal(model.tokenizer.digest())},
      {"prefix", prefix.description},
      {"prefix_digest", prefix.description.empty() ? "" : digest_of(prefix.state)},
      {"samples", settings.samples},
      {"tokens", settings.batch.tokens},
      {"mode", name_of(settings.mode)},
      {"stops", settings.batch.stops},
      {"seed", sampler.seed},
      {"temperature", sampler.temperature},
      {"top_p", sampler.top_p},
      {"top_k", sampler.top_k},
      {"presence_penalty", sampler.presence_penalty},
      {"frequency_penalty", sampler.frequency_penalty},
      {"penalty_decay", sampler.penalty_decay},
      {"rules", answers::rule_set},
      {"algebra", answers::has_algebra()},
      {"benchmarks", nlohmann::ordered_json::array()}};
  // Runs that are older than other templates have no such line.
  if (model.chat.name() != world_template().name()) json["template"] = model.chat.name();
  for (const Benchmark& benchmark : suite)
    array_at(json, "benchmarks")
        .push_back({{"name", benchmark.name},
                    {"title", benchmark.title},
                    {"problems", benchmark.problems.size()},
                    {"digest", digest_of(benchmark)}});
  return sealed(json.dump(2) + "\n");
}

Run evaluate(const EvaluatedModel& model, const Prefix& prefix, const std::vector<Benchmark>& suite,
             const EvaluationSettings& settings, const fs::path& out,
             const std::function<void(const EvaluationProgress&)>& progress) {
  if (settings.samples < 1 || settings.samples > max_samples)
    fail(Fault::usage, "samples: expected 1 to ", max_samples, ", found ", settings.samples);
  if (model.tokenizer.vocabulary_size() > model.model.vocabulary())
    fail(Fault::file, model.name, ": expected a tokenizer of at most ",
         model.model.vocabulary(), " tokens, found ", model.tokenizer.name(), " with ",
         model.tokenizer.vocabulary_size(), "; give the model's own");
  validate(settings.batch.sampler);
  if (settings.batch.tokens < 1)
    fail(Fault::usage, "tokens: expected at least 1, found ", settings.batch.tokens);
  const fs::path folder = shard_folder(out, settings.shard);
  {
    RunInProgress run(suite, settings, settings_json(model, prefix, suite, settings), folder,
                      progress);
    const auto wanted = run.wanted();
    const auto prompt = [&](const OpenProblem& open) {
      const std::string text = asked(*open.benchmark, *open.problem);
      const Message message{Role::user, text};
      std::vector<int32_t> tokens = prefix.pending;
      if (prefix.description.empty())
        model.chat.append_prompt({&message, 1}, settings.mode, model.tokenizer, tokens);
      else
        model.chat.append_next_turn(text, settings.mode, model.tokenizer, tokens);
      return tokens;
    };
    Engine engine(model.model, model.tokenizer, model.cpu,
                  {.stops = settings.batch.stops,
                   .tokens = settings.batch.tokens,
                   .batch = settings.batch.batch,
                   .on_overflow = OnOverflow::end,
                   .batch_invariant = true});
    engine.on_end = [&](const GeneratedText& sample) {
      const auto& [problem, number] = wanted[size_t(sample.request) + sample.sample];
      run.take(problem, number, sample);
    };
    // A request has the samples of one problem; its id is the number of the first.
    size_t next = 0;
    engine.run([&]() -> std::optional<TextRequest> {
      if (next == wanted.size()) return std::nullopt;
      const size_t problem = wanted[next].first;
      TextRequest request{next, prefix.state.clone(), prompt(run.problem(problem)), {}};
      for (; next < wanted.size() && wanted[next].first == problem; ++next)
        request.samplers.emplace_back(
            settings.batch.sampler,
            sample_stream(run.problem(problem).key(), wanted[next].second));
      return request;
    });
    run.flush();
  }
  if (settings.shard.count == 1) {
    const Run run = read_run(out);
    write_scores(run, out);
    return run;
  }
  if (!all_shards_done(out, settings.shard)) return read_run(folder);
  const fs::path folders[]{out};
  return merge_runs(folders, out);
}

}  // namespace deltasane::eval
