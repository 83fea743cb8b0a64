#include "house/names.h"

#include <cctype>
#include <set>

#include "base/cat.h"

namespace deltasane::house {

namespace {

const std::set<std::string> banned{"manager", "managers", "helper", "helpers",  "util",
                                   "utils",   "common",   "impl",   "data",     "info",
                                   "new",     "old",      "fast",   "optimized"};

// "src/a_b/TheData.h" -> src a b the data h
std::vector<std::string> words_in(const std::string& path) {
  std::vector<std::string> words(1);
  bool lower_before = false;
  for (const char c : path) {
    const auto byte = static_cast<unsigned char>(c);
    if (!std::isalnum(byte) || (std::isupper(byte) && lower_before)) words.emplace_back();
    if (std::isalnum(byte)) words.back() += static_cast<char>(std::tolower(byte));
    lower_before = std::islower(byte);
  }
  return words;
}

}  // namespace

Findings check_names(const std::vector<Source>& sources) {
  Findings findings;
  for (const Source& source : sources)
    for (const std::string& word : words_in(source.path))
      if (banned.contains(word))
        findings.push_back({source.path, cat("\"", word, "\" has no meaning: name what it is")});
  return findings;
}

}  // namespace deltasane::house
