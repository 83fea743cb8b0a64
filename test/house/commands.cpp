#include <algorithm>
#include <cctype>

#include "base/cat.h"
#include "house/docs.h"
#include "house/text.h"
#include "support/process.h"

namespace deltasane::house {

namespace {

bool starts_command(std::string_view word) {
  return word == "|" || word == "&&" || word == "||" || word == ";" || word == "$" ||
         word == "time" || word == "sudo" || word.find('=') != word.npos;
}

bool is_program(std::string_view word) {
  return word == "deltasane" || word.ends_with("/deltasane");
}

bool is_command_name(std::string_view word) {
  return std::islower(static_cast<unsigned char>(word[0])) &&
         std::ranges::all_of(word, [](unsigned char c) {
           return std::islower(c) || std::isdigit(c) || c == '_' || c == '-';
         });
}

}  // namespace

std::set<std::string> shown_commands(std::string_view markdown) {
  std::set<std::string> commands;
  bool fenced = false;
  for (const std::string_view line : lines_of(markdown)) {
    const bool fence = trimmed(line).starts_with("```") || trimmed(line).starts_with("~~~");
    if (fence) fenced = !fenced;
    if (fence || !fenced) continue;
    const std::vector<std::string_view> words = words_of(line.substr(0, line.find(" #")));
    bool first = true;
    for (size_t i = 0; i + 1 < words.size(); ++i) {
      if (first && is_program(words[i]) && is_command_name(words[i + 1]))
        commands.insert(std::string(words[i + 1]));
      first = starts_command(words[i]);
    }
  }
  return commands;
}

std::string fault_of_command(const std::string& program, const std::string& command) {
  const test::Outcome outcome = test::run({program, command, "--help"});
  const std::string asked = cat("deltasane ", command, " --help: ");
  if (outcome.exit_code != 0)
    return cat(asked, "expected exit code 0, found ", outcome.exit_code, "\n", outcome.output);
  if (outcome.output == test::run({program, "--help"}).output)
    return cat(asked, "expected help on the command, found that of the program");
  return {};
}

}  // namespace deltasane::house
