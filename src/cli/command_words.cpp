#include "cli/command_words.h"

#include <CLI/CLI.hpp>

#include <algorithm>

#include "base/edit_distance.h"
#include "base/error.h"

namespace deltasane::cli {
namespace {

std::string nearest_word(const std::string& word, const std::vector<std::string>& known) {
  return *std::ranges::min_element(
      known, {}, [&](const std::string& one) { return edit_distance(word, one); });
}

std::vector<std::string> names_below(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* sub : app.get_subcommands([](const CLI::App*) { return true; }))
    names.push_back(sub->get_name());
  return names;
}

// The command that the words name; `title` becomes "deltasane bench kernel".
const CLI::App& command_of(const CLI::App& app, const std::vector<std::string>& words,
                           std::string& title) {
  const CLI::App* at = &app;
  for (const std::string& word : words) {
    const std::vector<std::string> known = names_below(*at);
    if (at->get_require_subcommand_min() == 0 || word.starts_with('-')) break;
    if (std::ranges::find(known, word) == known.end())
      fail(Fault::usage, "expected a command, such as ", nearest_word(word, known), ", found '",
           word, "'; see ", title, " --help");
    at = at->get_subcommand(word);
    title += " " + word;
  }
  return *at;
}

// The library's own words, as other messages have them.
std::string reworded(const CLI::ParseError& error, const CLI::App& at) {
  const std::string text = error.what(), kind = error.get_name();
  if (kind == "RequiredError") {
    for (const CLI::Option* option : at.get_options())
      if (option->get_required() && option->count() == 0)
        return cat("expected ", option->get_name(option->get_positional(), false), ", found none");
    if (const std::vector<std::string> known = names_below(at); !known.empty())
      return cat("expected a command, such as ", known.front(), ", found none");
  }
  constexpr std::string_view unread = "Could not convert: ";
  const size_t equals = text.find(" = ");
  if (kind == "ConversionError" && text.starts_with(unread) && equals != text.npos)
    return cat(text.substr(unread.size(), equals - unread.size()), ": expected a number, found '",
               text.substr(equals + 3), "'");
  if (kind == "ArgumentMismatch" && text.ends_with("missing"))
    return cat(text.substr(0, text.find(':')), ": expected a value, found none");
  return text;
}

}  // namespace

std::vector<std::string> command_words(const CLI::App& app, int argc, char** argv) {
  std::vector<std::string> words(argv + std::min(argc, 1), argv + argc);
  if (words.empty())
    fail(Fault::usage, "expected a command, such as chat, found none; see ", app.get_name(),
         " --help");
  if (words[0] == "version") words[0] = "--version";
  if (words[0] == "help") {
    words.erase(words.begin());
    words.push_back("--help");
  }
  std::string title = app.get_name();
  command_of(app, words, title);
  return words;
}

std::string message_of(const CLI::ParseError& error, const CLI::App& app) {
  std::string title = app.get_name();
  const CLI::App* at = &app;
  while (!at->get_subcommands().empty()) {
    at = at->get_subcommands().front();
    title += " " + at->get_name();
  }
  const std::string more = cat("; see ", title, " --help");
  for (const std::string& word : at->remaining()) {
    if (!word.starts_with('-')) continue;
    std::vector<std::string> known;
    for (const CLI::Option* option : at->get_options())
      for (const std::string& name : option->get_lnames()) known.push_back("--" + name);
    return cat("expected a flag, such as ", nearest_word(word, known), ", found '", word, "'",
               more);
  }
  if (at->remaining_size() > 0)
    return cat("expected nothing more, found '", at->remaining().front(), "'", more);
  return cat(reworded(error, *at), more);
}

}  // namespace deltasane::cli
