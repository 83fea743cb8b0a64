// Documents: every path they name exists, and every command they show is one the program has.
//
// A word in backticks counts as a path of this tree when it ends like a source (.h .cpp .cu .cmake
// .md), when it begins with a folder of the tree, or when it is one word that ends with a slash.
// Placeholders (<name>, NAME, *, {a,b}, $X), absolute paths and build/ do not count. The target of
// a link always counts unless it is a URL or an anchor.
#pragma once

#include <filesystem>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "house/finding.h"

namespace deltasane::house {

struct Mention {
  int line;
  std::string path;
  bool link;  // a link is relative to its document, a word in backticks also to the root and src/
};

// `folders` are the names that begin a path: those at the root and those in src/.
std::vector<Mention> mentioned_paths(std::string_view markdown,
                                     const std::set<std::string>& folders);

// COMMAND of each `deltasane COMMAND ...` in a fenced block.
std::set<std::string> shown_commands(std::string_view markdown);

// Why `program command --help` fails, or empty. The help of the program itself does not count:
// parsers print it for an unknown command.
std::string fault_of_command(const std::string& program, const std::string& command);

// `document` is a path relative to `root`.
Findings check_paths(const std::filesystem::path& root, const std::string& document,
                     std::string_view markdown);

// README.md, CONTRIBUTING.md and docs/*.md, as far as they exist.
std::vector<std::string> documents(const std::filesystem::path& root);

}  // namespace deltasane::house
