// Problems from JSONL files: which fields make the question and the gold answer.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "eval/suite/suite.h"

namespace deltasane::eval {

enum class QuestionRule {
  joined,         // the fields, with a space between them
  sentences,      // the same; all but the last end in a full stop, which is added where missing
  with_options,   // the field, and the object `options` below it
  question_mark,  // the last character becomes "?", full-width punctuation becomes ASCII
};

enum class GoldRule {
  as_written,           // numbers lose a ".0"
  after_hashes,         // what follows "####"
  last_box,             // inside the last \boxed{}
  without_parentheses,  // "9 (apples)" is 9
  without_dollars,
};
GoldRule gold_rule_named(std::string_view name);  // "as-written", ...; anything else fails

struct RowRule {
  std::vector<std::string> question;
  std::string gold;
  QuestionRule question_rule = QuestionRule::joined;
  GoldRule gold_rule = GoldRule::as_written;
};

// Adds the file's problems and notes to the benchmark. Stops after `limit` good rows (0: never).
void read_rows(const fs::path& file, const RowRule& rule, int64_t limit, Benchmark& benchmark);

// The instructions for models that were trained on World and G1 chats.
std::string_view english_instruction();
std::string_view chinese_instruction();
std::string_view choice_instruction();  // Chinese, for the letter of an option

}  // namespace deltasane::eval
