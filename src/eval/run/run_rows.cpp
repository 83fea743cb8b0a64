#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json/json_text.h"
#include "eval/run/run_folder.h"

namespace deltasane::eval {
namespace {

using LogJson = nlohmann::ordered_json;

LogJson parsed_row(const std::string& line, const std::string& where) {
  LogJson row = parse_json<LogJson>(line);
  if (!row.is_object())
    fail(Fault::file, where, ": expected a row of a run, found other text; was the file edited?");
  return row;
}

template <class Value>
Value member_of(const LogJson& row, const char* name, const std::string& where) {
  try {
    return row.at(name).get<Value>();
  } catch (const LogJson::exception& error) {
    fail(Fault::file, where, ": expected a row of a run, found: ", error.what());
  }
}

std::string one_line(const LogJson& row) {
  return row.dump(-1, ' ', false, LogJson::error_handler_t::replace);
}

ProblemKey key_of(const LogJson& row, const std::string& where) {
  return {member_of<std::string>(row, "benchmark", where), member_of<int64_t>(row, "row", where)};
}

}  // namespace

std::string to_json(const SampleRow& row) {
  return one_line({{"benchmark", row.problem.first},
                   {"row", row.problem.second},
                   {"sample", row.sample},
                   {"text", row.text},
                   {"tokens", row.tokens},
                   {"ended", row.ended}});
}

SampleRow sample_from_json(const std::string& line, const std::string& where) {
  const LogJson row = parsed_row(line, where);
  return {key_of(row, where), member_of<int64_t>(row, "sample", where),
          member_of<std::string>(row, "text", where), member_of<std::string>(row, "ended", where),
          member_of<int64_t>(row, "tokens", where)};
}

std::string to_json(const ProblemKey& problem, const std::string& gold, const Vote& vote) {
  LogJson verdicts = LogJson::array(), answers = LogJson::array();
  for (const answers::Verdict verdict : vote.verdicts)
    if (verdict == answers::Verdict::unsupported)
      verdicts.push_back(nullptr);
    else
      verdicts.push_back(verdict == answers::Verdict::same);
  for (const std::string& answer : vote.answers) answers.push_back(answer);
  return one_line({{"benchmark", problem.first},
                   {"row", problem.second},
                   {"gold", gold},
                   {"answers", answers},
                   {"groups", vote.groups},
                   {"verdicts", verdicts},
                   {"winner", vote.winner ? LogJson(*vote.winner) : LogJson()},
                   {"votes", vote.votes},
                   {"correct", vote.verdict == answers::Verdict::same}});
}

ProblemRow problem_from_json(const std::string& line, const std::string& where) {
  const LogJson row = parsed_row(line, where);
  ProblemRow found;
  found.problem = key_of(row, where);
  found.correct = member_of<bool>(row, "correct", where);
  for (const LogJson& verdict : member_of<LogJson>(row, "verdicts", where)) {
    ++found.samples;
    found.refused += verdict.is_null();
    found.right_samples += verdict.is_boolean() && verdict.get<bool>();
  }
  for (const int group : member_of<std::vector<int>>(row, "groups", where))
    found.unparsed += group < 0;
  return found;
}

}  // namespace deltasane::eval
