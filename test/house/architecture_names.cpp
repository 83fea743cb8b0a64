#include "house/architecture_names.h"

#include <cctype>

#include "base/cat.h"
#include "house/text.h"

namespace deltasane::house {
namespace {

bool is_letter(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0; }
bool is_lower(char c) { return std::islower(static_cast<unsigned char>(c)) != 0; }
bool is_upper(char c) { return std::isupper(static_cast<unsigned char>(c)) != 0; }
char lower(char c) { return char(std::tolower(static_cast<unsigned char>(c))); }
bool is_separator(char c) { return c == '-' || c == '_'; }

// The end of `name` in `text` from `at`, separators ignored; npos if it is not there.
size_t match_end(std::string_view text, size_t at, std::string_view name) {
  for (size_t i = 0; i < name.size(); ++i) {
    if (is_separator(name[i])) continue;
    if (i > 0 && at < text.size() && is_separator(text[at])) ++at;
    if (at == text.size() || lower(text[at]) != lower(name[i])) return text.npos;
    ++at;
  }
  return at;
}

// The folder NAME of a path src/model/NAME/..., or nothing.
std::string_view model_folder(std::string_view path) {
  constexpr std::string_view models = "src/model/";
  if (!path.starts_with(models)) return {};
  path.remove_prefix(models.size());
  const size_t slash = path.find('/');
  return slash == path.npos ? std::string_view() : path.substr(0, slash);
}

int line_of(std::string_view text, std::string_view name) {
  int number = 0;
  for (const std::string_view line : lines_of(text)) {
    ++number;
    if (contains_architecture_name(line, name)) return number;
  }
  return 0;
}

}  // namespace

std::set<std::string> architecture_names(const std::vector<Source>& sources) {
  std::set<std::string> names;
  for (const Source& source : sources) {
    const std::string_view folder = model_folder(source.path);
    if (source.path == cat("src/model/", folder, "/block.h") ||
        source.path == cat("src/model/", folder, "/model.h"))
      names.emplace(folder);
  }
  return names;
}

bool contains_architecture_name(std::string_view text, std::string_view name) {
  for (size_t at = 0; at < text.size(); ++at) {
    const size_t end = match_end(text, at, name);
    if (end == text.npos) continue;
    // Not inside a longer word; a capital begins a new one, as in OnRwkv7.
    const bool begins = at == 0 || !is_letter(text[at - 1]) || is_upper(text[at]);
    const bool ends = end == text.size() || !is_letter(name.back()) || !is_lower(text[end]);
    if (begins && ends) return true;
  }
  return false;
}

Findings check_architecture_names(const std::vector<Source>& sources) {
  Findings findings;
  for (const std::string& name : architecture_names(sources))
    for (const Source& source : sources) {
      const bool exempt = !source.path.starts_with("src/") || is_test_or_fixture(source.path) ||
                          model_folder(source.path) == name ||
                          source.path == "src/model/architectures.cpp" ||
                          source.path == "src/model/CMakeLists.txt";
      if (exempt) continue;
      if (contains_architecture_name(source.path, name))
        findings.push_back({source.path, cat("has the architecture ", name, " in its path")});
      else if (const int line = line_of(source.text, name); line > 0)
        findings.push_back({cat(source.path, ":", line), cat("names the architecture ", name,
                                                             ": use model/language_model.h, or ",
                                                             "move it to src/model/", name)});
    }
  return findings;
}

}  // namespace deltasane::house
