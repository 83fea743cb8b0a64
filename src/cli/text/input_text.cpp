#include "cli/text/input_text.h"

#include <sys/stat.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <array>
#include <cerrno>
#include <cstring>

#include "base/error.h"
#include "base/io/file.h"

namespace deltasane::cli {

void describe_input_word(CLI::App& app, std::string& word) {
  const auto when = [](bool is_input, const char* expected) {
    return CLI::Validator(
        [=](std::string& text) {
          return (text == "-") == is_input ? std::string()
                                           : cat("expected ", expected, ", found '", text, "'");
        },
        "");
  };
  app.add_option("INPUT", word, "-: the text is on standard input")
      ->type_name("")
      ->check(when(true, "-"));
  app.get_option("--model")->check(when(false, "a model file"));
  app.validate_positionals();  // whichever of the two a word fits
}

std::string input_text(const std::string& path) {
  if (path != "-") return read_file(path);
  std::string text;
  std::array<char, 65536> block;
  for (;;) {
    const ssize_t got = ::read(STDIN_FILENO, block.data(), block.size());
    if (got == 0) return text;
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail(Fault::file, "standard input: cannot read: ", std::strerror(errno));
    text.append(block.data(), size_t(got));
  }
}

bool has_piped_input() {
  struct stat found {};
  return ::fstat(STDIN_FILENO, &found) == 0 && (S_ISFIFO(found.st_mode) || S_ISREG(found.st_mode));
}

}  // namespace deltasane::cli
