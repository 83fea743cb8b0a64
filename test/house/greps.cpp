#include "house/greps.h"

#include <algorithm>

#include "base/cat.h"
#include "house/text.h"

namespace deltasane::house {

namespace {

// Where a rule does not hold. * stands for anything.
const std::vector<std::string_view> may_launch{"src/tensor/*launch.h", "src/tensor/*launch.cuh"};
const std::vector<std::string_view> may_print{"src/cli/*"};
const std::vector<std::string_view> may_choose_lines{"src/base/*", "src/kernel/isa*",
                                                     "src/*/config*"};

bool allowed(std::string_view path, const std::vector<std::string_view>& places) {
  return std::ranges::any_of(places, [&](std::string_view place) { return matches(path, place); });
}

// Whether one of `names` is called: the whole word, then an opening parenthesis.
bool calls(std::string_view code, std::initializer_list<std::string_view> names) {
  return std::ranges::any_of(names, [&](std::string_view name) {
    for (size_t at = code.find(name); at != code.npos; at = code.find(name, at + 1)) {
      const bool starts = at == 0 || !is_word_character(code[at - 1]);
      if (starts && trimmed(code.substr(at + name.size())).starts_with('(')) return true;
    }
    return false;
  });
}

bool prints(std::string_view code) {
  return calls(code, {"printf", "fprintf", "sprintf", "snprintf", "dprintf", "vprintf", "vfprintf",
                      "vsprintf", "vsnprintf", "vdprintf"});
}

bool chooses_lines(std::string_view code) {
  code = trimmed(code);
  if (!code.starts_with('#')) return false;
  const std::vector<std::string_view> words = words_of(code.substr(1));
  return !words.empty() && (words[0].starts_with("if") || words[0].starts_with("elif"));
}

bool has_mark(std::string_view comment) {
  return has_word(comment, "TODO") || has_word(comment, "FIXME") || has_word(comment, "XXX");
}

// --name in a literal, not as a part of a longer run of dashes.
bool names_flag(std::string_view literals) {
  for (size_t at = literals.find("--"); at != literals.npos; at = literals.find("--", at + 1)) {
    const bool starts =
        at == 0 || (literals[at - 1] != '-' && !is_word_character(literals[at - 1]));
    if (starts && at + 2 < literals.size() && literals[at + 2] >= 'a' && literals[at + 2] <= 'z')
      return true;
  }
  return false;
}

bool may_name_flags(std::string_view path) {
  return !path.starts_with("src/") || path.starts_with("src/cli/") || is_test_or_fixture(path);
}

bool uses_regex(std::string_view code) {
  return code.find("std::regex") != code.npos || code.find("<regex>") != code.npos;
}

// Ends the process where its destructor cannot be registered for want of memory.
bool has_thread_local(std::string_view path, std::string_view code) {
  return code.find("thread_local") != code.npos && path.starts_with("src/");
}

// JSON["key"].push_back, where the array may have to be made.
bool makes_array(std::string_view path, std::string_view code) {
  return code.find("\"].push_back(") != code.npos && path.starts_with("src/") &&
         !is_test_or_fixture(path);
}

}  // namespace

Findings check_greps(const std::vector<Source>& sources) {
  Findings findings;
  for (const Source& source : sources) {
    const Views views = views_of(source.text);
    const auto code = lines_of(views.code), comments = lines_of(views.comments),
               literals = lines_of(views.literals);
    for (size_t i = 0; i < code.size(); ++i) {
      const auto found = [&](bool fault, std::string_view what) {
        if (fault) findings.push_back({cat(source.path, ":", i + 1), std::string(what)});
      };
      found(code[i].find("<<<") != code[i].npos && !allowed(source.path, may_launch),
            "launches a kernel with <<<: use the launch function, which checks");
      found(calls(code[i], {"assert"}), "calls assert: use require (a bug) or fail (bad input)");
      found(prints(code[i]) && !allowed(source.path, may_print),
            "prints with the printf family: return text, and print it in src/cli");
      found(chooses_lines(code[i]) && !allowed(source.path, may_choose_lines),
            "has a preprocessor condition: choose files in CMake or use if constexpr");
      found(uses_regex(code[i]), "uses std::regex");
      found(has_thread_local(source.path, code[i]),
            "has a variable of a thread: pass it, or let it live as long as the call");
      found(makes_array(source.path, code[i]),
            "makes an array of a null, which ends the process without memory: use array_at of "
            "base/json/array_at.h");
      found(calls(code[i], {"XXH3_createState"}),
            "calls XXH3_createState, which fails without memory: use Xxh3 of base/hash/xxh3.h");
      found(names_flag(literals[i]) && !may_name_flags(source.path),
            "names a command-line flag: name the setting; flags belong to src/cli");
      found(has_mark(comments[i]), "has a comment that promises work: do it or open an issue");
    }
  }
  return findings;
}

}  // namespace deltasane::house
