#include "eval/suite/published.h"

#include "base/error.h"

namespace deltasane::eval {

const std::vector<Published>& published_benchmarks() {
  using enum QuestionRule;
  using enum GoldRule;
  const auto en = english_instruction(), zh = chinese_instruction();
  static const std::vector<Published> all{
      {"gsm8k", "GSM8k", 1319, en, {{"question"}, "answer", joined, after_hashes}},
      {"weak12k", "Weak12k", 1000, zh, {{"original_text"}, "answer", question_mark, as_written}},
      {"math500", "MATH-500", 500, en, {{"problem"}, "answer", joined, as_written}},
      {"asdiv", "ASDiv", 2215, en, {{"body", "question"}, "answer", joined, without_parentheses}},
      {"carp_en", "Carpe-en", 976, en, {{"content"}, "answer", joined, as_written}},
      {"cmath", "CMATH", 600, zh, {{"question"}, "answer", joined, as_written}},
      {"college_math", "CollegeMath", 2818, en, {{"question"}, "answer", joined, without_dollars}},
      {"gaokao_math_qa",
       "GAOKAO Math QA",
       351,
       choice_instruction(),
       {{"question"}, "label", with_options, as_written},
       true},
      {"mawps", "MAWPS", 2065, en, {{"input"}, "target", joined, as_written}},
      {"minerva_math", "Minerva math", 272, en, {{"problem"}, "solution", joined, last_box}},
      {"svamp", "SVAMP", 1000, en, {{"Body", "Question"}, "Answer", sentences, as_written}},
  };
  return all;
}

Benchmark open_published(const Published& published, const SuiteOptions& options) {
  if (options.folder.empty())
    fail(Fault::usage, published.name, ": expected a data folder with ", published.name,
         "/test.jsonl in it, found none");
  if (!fs::is_directory(options.folder))
    fail(Fault::file, "data folder ", options.folder.string(),
         ": expected a folder with one folder for each benchmark, found none");
  Benchmark benchmark;
  benchmark.name = published.name;
  benchmark.title = published.title;
  benchmark.instruction = published.instruction;
  benchmark.check.strings = published.choices;
  const fs::path file = options.folder / published.name / "test.jsonl";
  read_rows(file, published.rule, options.limit, benchmark);
  const int64_t found = int64_t(benchmark.problems.size());
  if (!options.limit && found != published.rows)
    benchmark.notes.push_back(cat(file.string(), ": expected ", published.rows, " problems, found ",
                                  found, "; scores are not those of the whole benchmark"));
  return benchmark;
}

}  // namespace deltasane::eval
