// The syntax of source descriptions: KIND:SUBJECT,name=value,name=value.
//
// A subject or value that contains a comma, a quote or a line break is in double quotes, with the
// escapes \n, \t, \" and \\ of C. Unknown kinds and options are errors that name them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace deltasane::corpus {

// The kind is the text before the first colon; each kind parses the rest.
struct KindAndRest {
  std::string_view kind, rest;
};
KindAndRest split_kind(std::string_view description);

// The error for an unknown name: lists the known ones and suggests the closest.
[[noreturn]] void fail_unknown(std::string_view what, std::string_view found,
                               std::span<const std::string_view> known);

// The text as a subject or value, in quotes if it needs them.
std::string quoted_if_needed(std::string_view text);

// The options of one source. done() fails on options that were given but never read.
class Options {
 public:
  enum class Subject { none, required };
  Options(std::string_view kind, std::string_view rest, Subject subject);

  const std::string& subject() const { return subject_; }
  std::string text(std::string_view name, std::string_view fallback);
  uint64_t number(std::string_view name, uint64_t fallback, uint64_t min, uint64_t max);
  // The index of the value among the choices.
  size_t choice(std::string_view name, size_t fallback, std::span<const std::string_view> choices);
  void done() const;

  std::string_view kind() const { return kind_; }

 private:
  struct Given {
    std::string name, value;
    bool used = false;
  };
  const std::string* take(std::string_view name);

  std::string kind_, subject_;
  std::vector<Given> given_;
  std::vector<std::string> known_;
};

}  // namespace deltasane::corpus
