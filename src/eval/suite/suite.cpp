#include "eval/suite/suite.h"

#include <algorithm>

#include "base/words/nearest_word.h"
#include "base/error.h"
#include "eval/suite/made_problems.h"
#include "eval/suite/own_suite.h"
#include "eval/suite/published.h"

namespace deltasane::eval {
namespace {

[[noreturn]] void no_such_suite(std::string_view name) {
  std::vector<std::string_view> known = published_names();
  known.push_back("all");
  known.push_back("math-chat");
  std::string list;
  for (const std::string_view one : known) list += cat(list.empty() ? "" : ", ", one);
  const auto nearest = nearest_word(name, known);
  fail(Fault::usage, "suite: expected one of ", list, " or a .toml file, found '", name, "'",
       nearest ? cat("; did you mean ", *nearest, "?") : "");
}

std::vector<std::string_view> split_at_commas(std::string_view names) {
  std::vector<std::string_view> parts;
  for (size_t from = 0; from <= names.size();) {
    const size_t comma = std::min(names.find(',', from), names.size());
    parts.push_back(names.substr(from, comma - from));
    from = comma + 1;
  }
  return parts;
}

}  // namespace

std::vector<std::string_view> published_names() {
  std::vector<std::string_view> names;
  for (const Published& one : published_benchmarks()) names.push_back(one.name);
  return names;
}

std::vector<Benchmark> open_suite(std::string_view suite, const SuiteOptions& options) {
  if (suite.ends_with(".toml")) return open_own_suite(fs::path(suite), options);
  constexpr std::string_view made = "math-chat";
  const int64_t made_problems = options.limit ? options.limit : options.made_problems;
  if (suite == made) return make_math_chat("", made_problems);
  if (suite.starts_with("math-chat:"))
    return make_math_chat(suite.substr(made.size() + 1), made_problems);
  std::vector<Benchmark> found;
  for (const std::string_view name : split_at_commas(suite)) {
    const auto& all = published_benchmarks();
    const auto at = std::ranges::find(all, name, &Published::name);
    if (name == "all")
      for (const Published& one : all) found.push_back(open_published(one, options));
    else if (at != all.end())
      found.push_back(open_published(*at, options));
    else
      no_such_suite(name);
  }
  for (const Benchmark& one : found)
    if (std::ranges::count(found, one.name, &Benchmark::name) > 1)
      fail(Fault::usage, "suite: expected each benchmark once, found ", one.name, " again");
  return found;
}

std::string asked(const Benchmark& benchmark, const Problem& problem) {
  constexpr std::string_view place = "{question}";
  std::string text = benchmark.instruction;
  const size_t at = text.find(place);
  require(at != text.npos, "an instruction has a place for the question");
  return text.replace(at, place.size(), problem.question);
}

}  // namespace deltasane::eval
