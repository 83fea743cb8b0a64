// How a source is described: KIND:SUBJECT,name=value,name=value.
//
// A subject or value that holds a comma, a quote or a line break stands in double quotes, in which
// \n, \t, \" and \\ are what they are in C. What is not known is an error that names it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace deltasane::corpus {

// The kind is what stands before the first colon; the rest is the kind's own affair.
struct KindAndRest {
  std::string_view kind, rest;
};
KindAndRest split_kind(std::string_view description);

// One error message for everything that is misspelt: what it was, what was expected, what is near.
[[noreturn]] void fail_unknown(std::string_view what, std::string_view found,
                               std::span<const std::string_view> known);

// The text as a subject or value: in quotes if it needs them.
std::string quoted_if_needed(std::string_view text);

// The options of one source. Each is taken once; done() refuses those that nobody asked for.
class Options {
 public:
  enum class Subject { none, required };
  Options(std::string_view kind, std::string_view rest, Subject subject);

  const std::string& subject() const { return subject_; }
  std::string text(std::string_view name, std::string_view otherwise);
  uint64_t number(std::string_view name, uint64_t otherwise, uint64_t least, uint64_t most);
  // The place of the value among the choices.
  size_t choice(std::string_view name, size_t otherwise, std::span<const std::string_view> choices);
  void done() const;

  std::string_view kind() const { return kind_; }

 private:
  struct Given {
    std::string name, value;
    bool taken = false;
  };
  const std::string* take(std::string_view name);

  std::string kind_, subject_;
  std::vector<Given> given_;
  std::vector<std::string> asked_;
};

}  // namespace deltasane::corpus
