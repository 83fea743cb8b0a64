#include "cli/command_words.h"

#include <CLI/CLI.hpp>

#include <algorithm>

#include "base/error.h"
#include "base/words/nearest_word.h"

namespace deltasane::cli {
namespace {

// "unknown command 'chatt'; did you mean chat? See deltasane --help".
std::string unknown_word(std::string_view kind, const std::string& word,
                         const std::vector<std::string>& known, const std::string& title) {
  const size_t letters = std::min(word.find_first_not_of('-'), word.size());
  const std::string dashes = word.substr(0, letters) == "-" ? "--" : word.substr(0, letters);
  const auto meant = nearest_word(std::string_view(word).substr(letters), known);
  return cat("unknown ", kind, " '", word, "'; ",
             meant ? cat("did you mean ", dashes, *meant, "? See ") : "see ", title, " --help");
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
      fail(Fault::usage, unknown_word("command", word, known, title));
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
  constexpr std::string_view too_many = ": At Most 1 required but received ";
  if (const size_t at_most = text.find(too_many); at_most != text.npos)
    return cat(text.substr(0, at_most), ": expected it once, found it ",
               text.substr(at_most + too_many.size()), " times");
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
    if (!word.starts_with('-') || word == "-") continue;
    std::vector<std::string> known;
    for (const CLI::Option* option : at->get_options())
      known.insert(known.end(), option->get_lnames().begin(), option->get_lnames().end());
    return unknown_word("flag", word.substr(0, word.find('=')), known, title);
  }
  if (at->remaining_size() > 0) {
    const std::string word = at->remaining().front();
    const bool is_prompt = at->get_option_no_throw("--prompt") != nullptr && word != "-";
    return cat("unexpected argument '", word, "'",
               is_prompt ? cat("; use --prompt '", word, "'. See ", title, " --help") : more);
  }
  return cat(reworded(error, *at), more);
}

}  // namespace deltasane::cli
