// Every reference answer of the benchmarks is the same as itself.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>

#include "answers/answers.h"

namespace deltasane::answers {
namespace {

using Json = nlohmann::json;

std::string number(const Json& value) {
  std::string text = value.is_string() ? value.get<std::string>() : value.dump();
  if (text.ends_with(".0")) text.resize(text.size() - 2);
  return text;
}

std::string last_box(const std::string& text) {
  const size_t start = text.rfind("\\boxed{");
  if (start == std::string::npos) return "";
  int open = 0;
  for (size_t i = start + 6; i < text.size(); ++i) {
    if (text[i] == '{') ++open;
    if (text[i] == '}' && --open == 0) return text.substr(start + 7, i - start - 7);
  }
  return "";
}

std::string without_parentheses(const std::string& text) {
  std::string kept;
  int open = 0;
  for (const char c : text) {
    open += c == '(';
    if (open == 0) kept += c;
    open -= c == ')';
  }
  return kept;
}

std::string without_dollars(std::string text) {
  std::erase(text, '$');
  return text;
}

struct Benchmark {
  const char* folder;
  size_t rows;
  std::string (*gold)(const Json& row);
};

const Benchmark benchmarks[] = {
    {"gsm8k", 1319,
     [](const Json& row) {
       const std::string answer = row["answer"];
       return answer.substr(answer.find("####") + 5);
     }},
    {"weak12k", 1000, [](const Json& row) { return number(row["answer"]); }},
    {"math500", 500, [](const Json& row) { return row["answer"].get<std::string>(); }},
    {"asdiv", 2215, [](const Json& row) { return without_parentheses(row["answer"]); }},
    {"carp_en", 976, [](const Json& row) { return row["answer"].get<std::string>(); }},
    {"cmath", 600, [](const Json& row) { return number(row["answer"]); }},
    {"college_math", 2818, [](const Json& row) { return without_dollars(row["answer"]); }},
    {"gaokao_math_qa", 351, [](const Json& row) { return row["label"].get<std::string>(); }},
    {"mawps", 2065, [](const Json& row) { return number(row["target"]); }},
    {"minerva_math", 272, [](const Json& row) { return last_box(row["solution"]); }},
    {"svamp", 1000, [](const Json& row) { return number(row["Answer"]); }},
};

TEST(Golds, VerifyAgainstThemselves) {
  const std::filesystem::path folder = std::filesystem::path(DELTASANE_SHARED) / "data/math";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << folder << ": no benchmarks here";
  if (!has_algebra()) GTEST_SKIP() << "this build compares plain numbers only";
  for (const Benchmark& benchmark : benchmarks) {
    std::ifstream file(folder / benchmark.folder / "test.jsonl");
    size_t rows = 0, same = 0;
    for (std::string line; std::getline(file, line); ++rows) {
      const std::string gold = benchmark.gold(Json::parse(line));
      const Verdict verdict = verify(wrapped(gold), "The final answer is \\boxed{" + gold + "}.");
      same += verdict == Verdict::same;
      if (verdict != Verdict::same)
        std::cout << benchmark.folder << " row " << rows << ": " << gold << "\n  "
                  << describe(extract(wrapped(gold))) << "\n";
    }
    EXPECT_EQ(rows, benchmark.rows) << benchmark.folder;
    EXPECT_GE(double(same), 0.99 * double(rows)) << benchmark.folder;
    std::cout << benchmark.folder << ": " << same << " of " << rows << "\n";
  }
}

}  // namespace
}  // namespace deltasane::answers
