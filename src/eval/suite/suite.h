// Benchmarks: problems with known answers, how they are asked and how answers to them are judged.
//
// A suite is named by
//
//   all                 the 11 published benchmarks, from DIR/FOLDER/test.jsonl
//   gsm8k,svamp         some of them
//   math-chat           problems made by the program itself, held out from training; no files;
//                       with options as in a corpus: math-chat:level=1-2,seed=3
//   FILE.toml           one's own (docs/evaluation.md)
//
// A row that cannot be read is left out and named; the others are asked.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/io/file.h"
#include "answers/answers.h"

namespace deltasane::eval {

struct Problem {
  int64_t row = 0;       // in the file, from 1: the name of the problem in logs and for seeds
  std::string question;  // without the instruction
  std::string gold;      // bare; see answers::wrapped
};

struct Benchmark {
  std::string name, title;
  std::string instruction;  // "{question}" in it stands for the question
  answers::CheckOptions check;
  std::vector<Problem> problems;
  std::vector<std::string> notes;  // what is wrong with rows, or with their number
};

struct SuiteOptions {
  fs::path folder = {};         // --data
  int64_t limit = 0;            // problems of each benchmark, the first ones; 0: all
  int64_t made_problems = 200;  // how many math-chat makes for each level without a limit
};

std::vector<Benchmark> open_suite(std::string_view suite, const SuiteOptions& options);

// What the user says to the model: the instruction with the question in it.
std::string asked(const Benchmark& benchmark, const Problem& problem);

// The published benchmarks' names, in the order of the paper's table.
std::vector<std::string_view> published_names();

}  // namespace deltasane::eval
