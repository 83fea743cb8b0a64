#include "answers/answers.h"

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/error.h"
#include "base/io/file.h"
#include "base/json/json_text.h"
#include "cli/command.h"
#include "cli/counted.h"
#include "answers/option_names.h"

namespace deltasane::cli {
namespace {

using Json = nlohmann::json;

struct AnswersOptions {
  const CLI::Option *gold_flag = nullptr, *prediction_flag = nullptr;
  std::string gold, prediction, batch, out;
  int threads = 0;
  bool json = false;
};

int check_one(const AnswersOptions& options) {
  const bool has_gold = options.gold_flag->count() > 0;
  if (!has_gold || options.prediction_flag->count() == 0)
    fail(Fault::usage, "answers check: expected --gold and --pred, or --batch, found ",
         has_gold                                 ? "--gold alone"
         : options.prediction_flag->count() == 0 ? "none"
                                                  : "--pred alone");
  const answers::Answer gold = answers::extract(options.gold);
  const answers::Answer prediction = answers::extract(options.prediction);
  const answers::Verdict verdict = answers::equivalent(gold, prediction);
  if (verdict == answers::Verdict::unsupported)
    fail(Fault::device,
         "answers check: this build compares plain numbers and choices only; build it with GMP and "
         "MPFR to compare expressions");
  const bool same = verdict == answers::Verdict::same;
  if (options.json)
    fmt::print("{}\n", nlohmann::ordered_json{{"verdict", same},
                                              {"gold", answers::describe(gold)},
                                              {"pred", answers::describe(prediction)},
                                              {"rules", answers::rule_set}}
                           .dump(2));
  else
    fmt::print("{}\n  gold  {}\n  pred  {}\n", same ? "same" : "different", answers::describe(gold),
               answers::describe(prediction));
  return 0;
}

// A line that is not a row keeps its place, with what is wrong with it.
struct BatchRow {
  Json json;
  std::string error;
  answers::Pair pair;
};

std::string text_at(const Json& row, const char* key) {
  const auto found = row.find(key);
  if (found == row.end() || !found->is_string())
    fail(Fault::file, key, ": expected a text, found ",
         found == row.end() ? "none" : found->type_name());
  return found->get<std::string>();
}

BatchRow read_row(const std::string& line) {
  BatchRow row;
  try {
    row.json = parse_json<Json>(line, "row");
    if (!row.json.is_object())
      fail(Fault::file, "row: expected an object with gold and pred, found ", row.json.type_name());
    row.pair = {text_at(row.json, "gold"), text_at(row.json, "pred"),
                row.json.contains("options")
                    ? answers::options_from_json(row.json["options"].dump())
                    : answers::CheckOptions{}};
  } catch (const Error& error) {
    row.error = error.what();
  }
  return row;
}

int check_batch(const AnswersOptions& options) {
  if (options.out.empty()) fail(Fault::usage, "--batch: expected --out FILE with it, found none");
  std::istringstream input(read_file(options.batch));
  std::vector<BatchRow> rows;
  std::vector<answers::Pair> pairs;
  int64_t number = 0;  // of the line
  for (std::string line; std::getline(input, line);) {
    ++number;
    if (line.empty()) continue;
    rows.push_back(read_row(line));
    if (!rows.back().error.empty())
      fmt::print(stderr, "{}:{}: {}\n", options.batch, number, rows.back().error);
    else
      pairs.push_back(rows.back().pair);
  }
  ThreadPool threads(options.threads);
  const std::vector<answers::Verdict> verdicts = answers::verify_all(threads, pairs);
  AtomicFile out(options.out);
  size_t next = 0, same = 0, broken = 0;
  for (BatchRow& row : rows) {
    if (!row.json.is_object()) row.json = Json::object();
    row.json["verdict"] = false;
    if (!row.error.empty()) {
      row.json["error"] = row.error;
      ++broken;
    } else if (const answers::Verdict verdict = verdicts[next++];
               verdict == answers::Verdict::unsupported) {
      row.json["verdict"] = nullptr;
      row.json["error"] = "this build compares plain numbers and choices only";
    } else {
      row.json["verdict"] = verdict == answers::Verdict::same;
      same += verdict == answers::Verdict::same;
    }
    out.write(row.json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n");
  }
  out.commit();
  fmt::print("{}, {} same, {} not readable, written to {}\n", counted(int64_t(rows.size()), "row"), same, broken,
             options.out);
  return broken ? 1 : 0;
}

}  // namespace

const Command answer_checks{
    "answers", "judge answers as Math-Verify does", [](CLI::App& app) {
      auto options = std::make_shared<AnswersOptions>();
      app.require_subcommand(1);
      app.footer("Example:\n  deltasane answers check --gold '$0.5$' --pred 'It is \\boxed{1/2}.'");
      CLI::App* check = app.add_subcommand("check", "a prediction against a gold answer");
      options->gold_flag = check->add_option("--gold", options->gold, "the right answer, such as '$\\frac{1}{2}$'");
      options->prediction_flag =
          check->add_option("--pred", options->prediction, "what a model wrote");
      check->add_option("--batch", options->batch, "JSONL rows with gold, pred and options");
      check->add_option("--out", options->out, "the same rows with verdict: true or false");
      check->add_option("--threads", options->threads, "threads; 0: all processors")
          ->capture_default_str();
      check->add_flag("--json", options->json, "print JSON");
      check->footer(
          "Examples:\n  deltasane answers check --gold '$0.5$' --pred 'It is \\boxed{1/2}.'\n"
          "  deltasane answers check --batch pairs.jsonl --out verdicts.jsonl");
      return [options] {
        return options->batch.empty() ? check_one(*options) : check_batch(*options);
      };
    }};

}  // namespace deltasane::cli
