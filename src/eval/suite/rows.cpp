#include "eval/suite/rows.h"

#include <fstream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json/json_text.h"
#include "text/utf8.h"

namespace deltasane::eval {
namespace {

using RowJson = nlohmann::json;

constexpr std::string_view gold_rule_names[]{"as-written", "after-hashes", "last-box",
                                             "without-parentheses", "without-dollars"};

std::string_view without_space(std::string_view text) {
  const auto is_space = [](char c) { return c == ' ' || (c >= '\t' && c <= '\r'); };
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return text;
}

std::string without_parentheses(std::string_view text) {
  std::string kept;
  int open = 0;
  for (const char c : text) {
    open += c == '(';
    if (open == 0) kept += c;
    if (c == ')' && open > 0) --open;
  }
  return kept;
}

// Chinese problems of which many end in a full stop or an open bracket.
std::string with_question_mark(std::string text) {
  constexpr std::pair<std::string_view, std::string_view> plain[]{
      {"，", ","}, {"．", "."}, {"。", "."}, {"？", "?"}, {"！", "!"},
      {"：", ":"}, {"；", ";"}, {"（", "("}, {"）", ")"}};
  size_t last = text.size();
  while (last > 0 && (static_cast<unsigned char>(text[--last]) & 0xC0) == 0x80) {
  }
  text.resize(last);
  for (const auto& [wide, ascii] : plain)
    for (size_t at = text.find(wide); at != text.npos; at = text.find(wide, at))
      text.replace(at, wide.size(), ascii);
  return text + "?";
}

// One row, and the first thing that is wrong with it.
class RowReading {
 public:
  explicit RowReading(const std::string& line) {
    if (!valid_utf8(line)) {
      wrong("expected UTF-8 text, found other bytes");
      return;
    }
    row_ = parse_json<RowJson>(line);
    if (row_.is_discarded())
      wrong("expected a JSON object, found text that is not JSON, or nested too deep");
    else if (!row_.is_object())
      wrong("expected a JSON object, found ", row_.type_name());
  }

  Problem problem(const RowRule& rule) {
    if (!fault_.empty()) return {};
    Problem found{0, question(rule), gold(rule)};
    if (found.question.empty()) wrong("expected a question, found an empty one");
    if (found.gold.empty()) wrong("expected an answer, found an empty one");
    return found;
  }
  const std::string& fault() const { return fault_; }

 private:
  template <class... Part>
  std::string wrong(const Part&... part) {
    if (fault_.empty()) fault_ = cat(part...);
    return {};
  }

  // As text: a string, or a number without the ".0" of whole ones.
  std::string field(const std::string& name) {
    const auto at = row_.find(name);
    if (at == row_.end()) return wrong("expected a field '", name, "', found none");
    if (at->is_string()) return at->get<std::string>();
    if (!at->is_number())
      return wrong(name, ": expected text or a number, found ", at->type_name());
    std::string text = at->dump();
    if (text.ends_with(".0")) text.resize(text.size() - 2);
    return text;
  }

  std::string question(const RowRule& rule) {
    std::string text;
    for (const std::string& name : rule.question) {
      if (!text.empty()) {
        if (rule.question_rule == QuestionRule::sentences && !text.ends_with('.')) text += '.';
        text += ' ';
      }
      text += without_space(field(name));
    }
    if (rule.question_rule == QuestionRule::with_options) text += options();
    if (rule.question_rule == QuestionRule::question_mark) text = with_question_mark(text);
    return text;
  }

  std::string options() {
    const auto options = row_.find("options");
    if (options == row_.end() || !options->is_object() || options->empty())
      return wrong("expected an object 'options', found none");
    std::string text = "\n选项:";
    for (const auto& [letter, option] : options->items()) {
      if (!option.is_string()) return wrong("options: expected texts, found another type");
      text += cat(" (", letter, ") ", option.get<std::string>());
    }
    return text;
  }

  std::string gold(const RowRule& rule) {
    std::string text = field(rule.gold);
    if (rule.gold_rule == GoldRule::after_hashes) {
      const size_t hashes = text.rfind("####");
      if (hashes == std::string::npos)
        return wrong("expected '####' before the answer, found none");
      text.erase(0, hashes + 4);
    }
    if (rule.gold_rule == GoldRule::last_box) text = last_box(text);
    if (rule.gold_rule == GoldRule::without_parentheses) text = without_parentheses(text);
    if (rule.gold_rule == GoldRule::without_dollars) std::erase(text, '$');
    return std::string(without_space(text));
  }

  std::string last_box(const std::string& text) {
    constexpr std::string_view box = "\\boxed{";
    const size_t start = text.rfind(box);
    if (start == std::string::npos) return wrong("expected a \\boxed{} answer, found none");
    int open = 1;
    for (size_t i = start + box.size(); i < text.size(); ++i) {
      open += text[i] == '{' ? 1 : text[i] == '}' ? -1 : 0;
      if (open == 0) return text.substr(start + box.size(), i - start - box.size());
    }
    return wrong("expected the last \\boxed{ to be closed, found the end of the text");
  }

  RowJson row_;
  std::string fault_;
};

}  // namespace

GoldRule gold_rule_named(std::string_view name) {
  std::string allowed;
  for (size_t i = 0; i < std::size(gold_rule_names); ++i) {
    if (name == gold_rule_names[i]) return GoldRule(i);
    allowed += cat(i ? ", " : "", gold_rule_names[i]);
  }
  fail(Fault::file, "gold-rule: expected one of ", allowed, ", found '", name, "'");
}

void read_rows(const fs::path& file, const RowRule& rule, int64_t limit, Benchmark& benchmark) {
  std::error_code ignored;  // a device may never end
  std::ifstream input(file);
  if (!input || !fs::is_regular_file(file, ignored))
    fail(Fault::file, file.string(), ": expected the problems of ", benchmark.name,
         ", one JSON object a line, found no such file; check the data folder");
  int64_t number = 0;
  for (std::string line; std::getline(input, line);) {
    ++number;
    if (without_space(line).empty()) continue;
    if (limit && int64_t(benchmark.problems.size()) >= limit) break;
    RowReading reading(line);
    Problem problem = reading.problem(rule);
    problem.row = number;
    if (reading.fault().empty())
      benchmark.problems.push_back(std::move(problem));
    else
      benchmark.notes.push_back(cat(file.string(), ":", number, ": ", reading.fault()));
  }
  if (benchmark.problems.empty())
    fail(Fault::file, file.string(), ": expected problems, found ",
         benchmark.notes.empty() ? "an empty file" : "no row that can be read; the first: ",
         benchmark.notes.empty() ? "" : benchmark.notes[0]);
}

std::string_view english_instruction() {
  return "{question}\nPlease reason step by step, and put your final answer within \\boxed{}.";
}

std::string_view chinese_instruction() {
  return "{question}\n请逐步推理，并将最终答案放在\\boxed{}中。";
}

std::string_view choice_instruction() {
  return "{question}\n请逐步推理，并将正确选项的字母放在\\boxed{}中。";
}

}  // namespace deltasane::eval
