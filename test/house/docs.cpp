#include "house/docs.h"

#include <algorithm>
#include <cctype>

#include "base/cat.h"
#include "base/io/file.h"
#include "house/text.h"

namespace deltasane::house {

namespace {

bool is_fence(std::string_view line) {
  return trimmed(line).starts_with("```") || trimmed(line).starts_with("~~~");
}

bool ends_like_source(std::string_view word) {
  constexpr std::string_view endings[]{".h", ".cpp", ".cu", ".cuh", ".cmake", ".md"};
  return std::ranges::any_of(
      endings, [&](auto ending) { return word.size() > ending.size() && word.ends_with(ending); });
}

// DIR, NAME_test.cpp, PATH/x: a word in capitals is a placeholder.
bool has_capital_word(std::string_view path) {
  for (size_t at = 0; at < path.size();) {
    const size_t end = std::min(path.find_first_of("/._-", at), path.size());
    const std::string_view word = path.substr(at, end - at);
    const bool known = word == "README" || word == "CONTRIBUTING" || word == "LICENSE";
    const auto is_capital = [](unsigned char c) { return std::isupper(c) != 0; };
    if (word.size() > 1 && std::ranges::all_of(word, is_capital) && !known) return true;
    at = end + 1;
  }
  return false;
}

bool looks_like_path(std::string_view word, const std::set<std::string>& folders) {
  constexpr std::string_view never = "<>*{}$()[]=,;|'\"\\@:%";
  if (word.empty() || word.find_first_of(never) != word.npos) return false;
  if (word.find("...") != word.npos || word.find("://") != word.npos) return false;
  if (word[0] == '/' || word[0] == '-' || word[0] == '~' || word[0] == '#') return false;
  if (word.starts_with("build/") || word.starts_with("./build/") || has_capital_word(word))
    return false;
  const size_t slash = word.find('/');
  if (slash == word.npos) return ends_like_source(word);
  return ends_like_source(word) || word.ends_with('/') || word.starts_with("./") ||
         word.starts_with("../") || folders.contains(std::string(word.substr(0, slash)));
}

void words_in_backticks(std::string_view line, int number, const std::set<std::string>& folders,
                        std::vector<Mention>& mentions) {
  for (size_t open = line.find('`'); open != line.npos;) {
    const size_t close = line.find('`', open + 1);
    if (close == line.npos) return;
    for (std::string_view word : words_of(line.substr(open + 1, close - open - 1))) {
      while (!word.empty() && std::isdigit(static_cast<unsigned char>(word.back())) &&
             word.find(':') != word.npos)
        word.remove_suffix(1);  // file.h:12
      if (word.ends_with(':')) word.remove_suffix(1);
      if (looks_like_path(word, folders)) mentions.push_back({number, std::string(word), false});
    }
    open = line.find('`', close + 1);
  }
}

void link_targets(std::string_view line, int number, std::vector<Mention>& mentions) {
  for (size_t at = line.find("]("); at != line.npos; at = line.find("](", at + 1)) {
    std::string_view target = line.substr(at + 2, line.find(')', at) - at - 2);
    target = trimmed(target.substr(0, target.find(' ')));
    target = target.substr(0, target.find('#'));
    if (target.empty() || target.find("://") != target.npos || target.starts_with("mailto:"))
      continue;
    mentions.push_back({number, std::string(target), true});
  }
}

// Whether the tree has a file of this name outside of build and hidden folders.
bool has_file_named(const fs::path& root, const std::string& name) {
  for (auto entry = fs::recursive_directory_iterator(root); entry != fs::end(entry); ++entry) {
    const std::string found = entry->path().filename().string();
    if (entry->is_directory() && (found == "build" || found.starts_with('.')))
      entry.disable_recursion_pending();
    else if (found == name)
      return true;
  }
  return false;
}

bool exists(const fs::path& root, const std::string& document, const Mention& mention) {
  if (fs::exists((root / document).parent_path() / mention.path)) return true;
  if (mention.link) return false;
  if (fs::exists(root / mention.path) || fs::exists(root / "src" / mention.path)) return true;
  return mention.path.find('/') == mention.path.npos && has_file_named(root, mention.path);
}

std::set<std::string> folders_of(const fs::path& root) {
  std::set<std::string> folders;
  for (const fs::path& parent : {root, root / "src"})
    if (fs::exists(parent))
      for (const fs::directory_entry& entry : fs::directory_iterator(parent))
        if (entry.is_directory()) folders.insert(entry.path().filename().string());
  return folders;
}

}  // namespace

std::vector<Mention> mentioned_paths(std::string_view markdown,
                                     const std::set<std::string>& folders) {
  std::vector<Mention> mentions;
  bool fenced = false;
  int number = 0;
  for (const std::string_view line : lines_of(markdown)) {
    ++number;
    if (is_fence(line)) fenced = !fenced;
    if (fenced) continue;
    words_in_backticks(line, number, folders, mentions);
    link_targets(line, number, mentions);
  }
  return mentions;
}

Findings check_paths(const std::filesystem::path& root, const std::string& document,
                     std::string_view markdown) {
  Findings findings;
  for (const Mention& mention : mentioned_paths(markdown, folders_of(root)))
    if (!exists(root, document, mention))
      findings.push_back({cat(document, ":", mention.line),
                          cat("names ", mention.path, ", which does not exist")});
  return findings;
}

std::vector<std::string> documents(const std::filesystem::path& root) {
  std::vector<std::string> found;
  for (const char* name : {"README.md", "CONTRIBUTING.md"})
    if (fs::exists(root / name)) found.push_back(name);
  if (fs::exists(root / "docs"))
    for (const fs::directory_entry& entry : fs::directory_iterator(root / "docs"))
      if (entry.path().extension() == ".md")
        found.push_back(cat("docs/", entry.path().filename().string()));
  std::ranges::sort(found);
  return found;
}

}  // namespace deltasane::house
