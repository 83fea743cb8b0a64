#include <unistd.h>
#include <CLI/CLI.hpp>
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <exception>
#include <filesystem>
#include <iostream>
#include <new>
#include <stdexcept>
#include <system_error>

#include "base/error.h"
#include "base/io/mapped_ranges.h"
#include "base/io/temporary_file.h"
#include "cli/command.h"
#include "cli/command_words.h"
#include "cli/terminal/interrupt.h"
#include "cli/terminal/terminal.h"
#include "cli/version.h"

namespace deltasane::cli {
namespace {

const Command* const commands[] = {
    &generate,   &chat,           &serve_texts,  &score,        &info,     &tokenize,    &convert,       &publish,
    &graft,      &train,          &stream,       &diagnose, &report,      &paper_figures, &records,
    &eval_suite, &compare_scores, &sweep_scores, &sweep,    &corpus_text, &answer_checks, &demo,
    &bench,      &machine,        &completion,   &manual};

constexpr int failed = 1, misused = 2;

// What is given as a word or with a flag is required once: only the word is marked.
class HelpFormatter : public CLI::Formatter {
 public:
  std::string make_option(const CLI::Option* option, bool is_positional) const override {
    std::string text = CLI::Formatter::make_option(option, is_positional);
    const std::string mark = " REQUIRED";
    const size_t at = text.find(mark);
    if (!is_positional && option->get_positional() && at != text.npos)
      text.replace(at, mark.size(), text[at + mark.size()] == '\n' ? "" : std::string(mark.size(), ' '));
    return text;
  }
};

int run(int argc, char** argv) {
  CLI::App app(
      "deltasane runs and trains delta-rule language models at any length.\n"
      "`deltasane help COMMAND` explains one, with examples.",
      "deltasane");
  app.set_version_flag("--version", version_text());
  app.formatter(std::make_shared<HelpFormatter>());
  app.require_subcommand(1);
  std::vector<std::pair<CLI::App*, std::function<int()>>> actions;
  for (const Command* command : commands) {
    CLI::App* sub = app.add_subcommand(command->name, command->summary);
    actions.push_back({sub, command->describe(*sub)});
  }
  try {
    std::vector<std::string> words = command_words(app, argc, argv);
    std::ranges::reverse(words);  // as the library takes them
    app.parse(std::move(words));
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // help, or the version
    fail(Fault::usage, message_of(error, app));
  }
  for (const auto& [sub, action] : actions)
    if (sub->parsed()) return action();
  return misused;
}

void put_error(const char* text) {
  const ssize_t ignored = ::write(STDERR_FILENO, text, std::strlen(text));
  static_cast<void>(ignored);
}

// The last resort for an error that no catch can reach: before main, in a destructor, in a thread
// while memory is short.
[[noreturn]] void end_with_message() {
  put_error("deltasane: ");
  try {
    if (std::current_exception()) throw;
    put_error("an error that was not expected");
  } catch (const std::bad_alloc&) {
    put_error("out of memory");
  } catch (const std::exception& error) {
    put_error(error.what());
  } catch (...) {
    put_error("an error without a message");
  }
  put_error("\n");
  ::_exit(failed);
}

[[gnu::constructor(101)]] void never_abort() { std::set_terminate(end_with_message); }

// A line of its own on standard error.
int after_error(std::string_view message, int code = failed) {
  end_output_line();
  std::cerr << "deltasane: " << message << '\n';
  return code;
}

// The library's "filesystem error: ACTION: REASON [PATH]" in the order of other messages.
std::string text_of(const std::filesystem::filesystem_error& error) {
  constexpr std::string_view start = "filesystem error: ";
  const std::string reason = error.code().message();
  std::string action = error.what();
  action = action.substr(action.starts_with(start) ? start.size() : 0);
  action = action.substr(0, action.find(": " + reason));
  if (action.find("create director") != action.npos) action = "cannot create the folder";
  return cat(error.path1(), ": ", action, ": ", reason);
}

// The only output without a name of its own is that of fmt::print.
std::string text_of(const std::system_error& error) {
  if (std::string_view(error.what()).starts_with("cannot write to file"))
    return cat("standard output: cannot write: ", error.code().message());
  return error.what();
}

// A reader that has gone away, such as head, has what it wanted: no message.
int after_output_error(const char* message) {
  return output_reader_has_gone() ? output_closed : after_error(message);
}

}  // namespace
}  // namespace deltasane::cli

int main(int argc, char** argv) {
  // A write that fails is an error like others: a file past the limit, a reader that went away.
  for (const int number : {SIGXFSZ, SIGPIPE}) std::signal(number, SIG_IGN);
  deltasane::end_with_message_on_vanished_bytes();
  deltasane::remove_temporaries_on_signals();
  try {
    deltasane::cli::guard_terminals();
    const int code = deltasane::cli::run(argc, argv);
    deltasane::cli::expect_output_written();
    return code;
  } catch (const deltasane::cli::OutputError& error) {
    return deltasane::cli::after_output_error(error.what());
  } catch (const deltasane::cli::Interrupted& error) {
    return deltasane::cli::after_error(error.what(), deltasane::cli::interrupted_code);
  } catch (const deltasane::Error& error) {
    return deltasane::cli::after_error(error.what(), error.fault() == deltasane::Fault::usage
                                                         ? deltasane::cli::misused
                                                         : deltasane::cli::failed);
  } catch (const std::bad_alloc&) {
    return deltasane::cli::after_error("out of memory");
  } catch (const std::length_error&) {  // of a size that no memory has
    return deltasane::cli::after_error("out of memory");
  } catch (const std::filesystem::filesystem_error& error) {
    return deltasane::cli::after_error(deltasane::cli::text_of(error));
  } catch (const std::system_error& error) {
    if (error.code() == std::errc::broken_pipe)
      return deltasane::cli::after_output_error(error.what());
    return deltasane::cli::after_error(deltasane::cli::text_of(error));
  } catch (const std::exception& error) {
    return deltasane::cli::after_error(error.what());
  } catch (...) {
    return deltasane::cli::after_error("an unknown error");
  }
}
