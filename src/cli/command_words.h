// The words of a command line, before flags are read and after they could not be.
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
class ParseError;
}  // namespace CLI

namespace deltasane::cli {

// `help` and `version` become flags. A word in a command's place that is none fails, and the one that
// was meant is named.
std::vector<std::string> command_words(const CLI::App& app, int argc, char** argv);

// One line: what is wrong, for an unknown flag the one that was meant, and where to read more.
std::string message_of(const CLI::ParseError& error, const CLI::App& app);

}  // namespace deltasane::cli
