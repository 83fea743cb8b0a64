// Text from a file or from standard input.
#pragma once

#include <string>

namespace CLI {
class App;
}

namespace deltasane::cli {

// Adds a lone "-" to a command that takes a model: standard input is its text. `word` is then "-".
void describe_input_word(CLI::App& app, std::string& word);

// The file's bytes; "-" is standard input.
std::string input_text(const std::string& path);

// Whether standard input is a pipe or a file, so that a command without a text may read it.
bool has_piped_input();

}  // namespace deltasane::cli
