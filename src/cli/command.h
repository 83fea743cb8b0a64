// A command is a row in the table of main.cpp: a name, one line about it, and a function that
// describes its flags and says what to run. One file per command.
#pragma once

#include <functional>

namespace CLI {
class App;
}

namespace deltasane::cli {

struct Command {
  const char* name;
  const char* summary;
  // Adds flags to `app`; what it returns runs after they were read, and gives the exit code.
  std::function<std::function<int()>(CLI::App& app)> describe;
};

extern const Command answer_checks;
extern const Command bench;
extern const Command chat;
extern const Command completion;
extern const Command compare_scores;
extern const Command convert;
extern const Command corpus_text;
extern const Command demo;
extern const Command eval_suite;
extern const Command diagnose;
extern const Command paper_figures;
extern const Command generate;
extern const Command graft;
extern const Command info;
extern const Command machine;
extern const Command manual;
extern const Command publish;
extern const Command records;
extern const Command report;
extern const Command score;
extern const Command serve_texts;
extern const Command sweep;
extern const Command sweep_scores;
extern const Command stream;
extern const Command tokenize;
extern const Command train;

}  // namespace deltasane::cli
