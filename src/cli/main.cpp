#include <CLI/CLI.hpp>
#include <filesystem>
#include <iostream>
#include <new>
#include <stdexcept>

#include "base/error.h"
#include "cli/command.h"
#include "cli/terminal.h"
#include "cli/version.h"

namespace deltasane::cli {
namespace {

const Command* const commands[] = {
    &generate,   &chat,           &score,        &info,     &tokenize,    &convert,       &publish,
    &graft,      &train,          &stream,       &diagnose, &report,      &paper_figures, &records,
    &eval_suite, &compare_scores, &sweep_scores, &sweep,    &corpus_text, &answer_checks, &demo,
    &bench,      &machine,        &completion,   &manual};

constexpr int failed = 1, misused = 2;

int run(int argc, char** argv) {
  CLI::App app(
      "deltasane runs and trains delta-rule language models at any length.\n"
      "Every command has its own --help with examples.",
      "deltasane");
  app.set_version_flag("--version", version_text());
  app.require_subcommand(1);
  std::vector<std::pair<CLI::App*, std::function<int()>>> actions;
  for (const Command* command : commands) {
    CLI::App* sub = app.add_subcommand(command->name, command->summary);
    actions.push_back({sub, command->describe(*sub)});
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    const int code = app.exit(error);
    return code == 0 ? 0 : misused;
  }
  for (const auto& [sub, action] : actions)
    if (sub->parsed()) return action();
  return misused;
}

}  // namespace
}  // namespace deltasane::cli

int main(int argc, char** argv) {
  try {
    deltasane::cli::guard_terminals();
    return deltasane::cli::run(argc, argv);
  } catch (const deltasane::Error& error) {
    std::cerr << "deltasane: " << error.what() << '\n';
    return error.fault() == deltasane::Fault::usage ? deltasane::cli::misused
                                                    : deltasane::cli::failed;
  } catch (const std::bad_alloc&) {
    std::cerr << "deltasane: out of memory\n";
  } catch (const std::length_error&) {  // of a size that no memory has
    std::cerr << "deltasane: out of memory\n";
  } catch (const std::filesystem::filesystem_error& error) {
    std::cerr << "deltasane: " << error.path1().string() << ": " << error.code().message() << '\n';
  } catch (const std::exception& error) {
    std::cerr << "deltasane: " << error.what() << '\n';
  } catch (...) {
    std::cerr << "deltasane: an unknown error\n";
  }
  return deltasane::cli::failed;
}
