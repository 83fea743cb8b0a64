#include "eval/suite/own_suite.h"

#include <algorithm>
#include <set>

#include "base/error.h"
#include "eval/suite/rows.h"
#include "format/toml_text.h"

namespace deltasane::eval {
namespace {

class OwnTable {
 public:
  OwnTable(const toml::table& table, std::string where) : table_(table), where_(std::move(where)) {}

  void expect_only(const std::set<std::string_view>& known) const {
    for (const auto& [key, value] : table_)
      if (!known.contains(key.str())) {
        std::string allowed;
        for (const auto name : known) allowed += cat(allowed.empty() ? "" : ", ", name);
        fail(Fault::file, where_, ": expected the keys ", allowed, ", found '", key.str(), "'");
      }
  }

  bool has(std::string_view key) const { return table_.contains(key); }

  std::string text(std::string_view key) const {
    const auto value = table_[key].value_exact<std::string>();
    if (!value || value->empty())
      fail(Fault::file, where_, ".", key, ": expected a text, found ",
           has(key) ? "another type, or nothing in it" : "nothing");
    return *value;
  }
  std::string text_or(std::string_view key, std::string_view otherwise) const {
    return has(key) ? text(key) : std::string(otherwise);
  }

  // A text, or a list of texts.
  std::vector<std::string> texts(std::string_view key) const {
    const toml::array* const list = table_[key].as_array();
    if (!list) return {text(key)};
    std::vector<std::string> found;
    for (const toml::node& node : *list) {
      const auto value = node.value_exact<std::string>();
      if (!value) fail(Fault::file, where_, ".", key, ": expected texts, found ", toml_value_text(node));
      found.push_back(*value);
    }
    if (found.empty()) fail(Fault::file, where_, ".", key, ": expected texts, found none");
    return found;
  }

  std::vector<OwnTable> tables(std::string_view key) const {
    const toml::array* const list = table_[key].as_array();
    if (!list || list->empty())
      fail(Fault::file, where_, ": expected [[", key, "]] tables, found none");
    std::vector<OwnTable> found;
    for (const toml::node& node : *list) {
      const toml::table* const table = node.as_table();
      if (!table) fail(Fault::file, where_, ".", key, ": expected tables, found ", toml_value_text(node));
      found.emplace_back(*table, cat(where_, " ", key, " ", found.size() + 1));
    }
    return found;
  }

  const std::string& where() const { return where_; }

 private:
  const toml::table& table_;
  std::string where_;
};

std::string_view own_instruction(const OwnTable& table) {
  const std::string language = table.text_or("language", "en");
  if (language == "en") return english_instruction();
  if (language == "zh") return table.has("choices") ? choice_instruction() : chinese_instruction();
  fail(Fault::file, table.where(), ".language: expected en or zh, found '", language, "'");
}

Benchmark own_benchmark(const OwnTable& table, const fs::path& beside,
                        const SuiteOptions& options) {
  table.expect_only({"name", "title", "language", "instruction", "choices", "file", "question",
                     "gold", "gold-rule", "problem"});
  Benchmark benchmark;
  benchmark.name = table.text("name");
  benchmark.title = table.text_or("title", benchmark.name);
  benchmark.instruction = table.text_or("instruction", own_instruction(table));
  if (benchmark.instruction.find("{question}") == std::string::npos)
    fail(Fault::file, table.where(), ".instruction: expected {question} in it, found none");
  if (table.has("choices")) {
    benchmark.check.strings = true;
    benchmark.check.choices = table.texts("choices");
  }
  if (table.has("file") == table.has("problem"))
    fail(Fault::file, table.where(), ": expected a file or [[benchmark.problem]] tables, found ",
         table.has("file") ? "both" : "neither");
  if (table.has("file")) {
    RowRule rule;
    rule.question =
        table.has("question") ? table.texts("question") : std::vector<std::string>{"question"};
    rule.gold = table.text_or("gold", "answer");
    rule.gold_rule = gold_rule_named(table.text_or("gold-rule", "as-written"));
    const fs::path& folder = options.folder.empty() ? beside : options.folder;
    read_rows(folder / table.text("file"), rule, options.limit, benchmark);
    return benchmark;
  }
  for (const OwnTable& row : table.tables("problem")) {
    row.expect_only({"question", "gold"});
    if (options.limit && int64_t(benchmark.problems.size()) == options.limit) break;
    benchmark.problems.push_back(
        {int64_t(benchmark.problems.size()) + 1, row.text("question"), row.text("gold")});
  }
  return benchmark;
}

}  // namespace

std::vector<Benchmark> open_own_suite(const fs::path& file, const SuiteOptions& options) {
  const toml::table root = parse_toml(read_file(file), file.string());
  const OwnTable table(root, file.string());
  table.expect_only({"benchmark"});
  std::vector<Benchmark> found;
  for (const OwnTable& row : table.tables("benchmark")) {
    found.push_back(own_benchmark(row, file.parent_path(), options));
    const auto same = [&](const Benchmark& other) { return other.name == found.back().name; };
    if (std::ranges::count_if(found, same) > 1)
      fail(Fault::file, row.where(), ".name: expected a name of its own, found '",
           found.back().name, "' again");
  }
  return found;
}

}  // namespace deltasane::eval
