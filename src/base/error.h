// Two kinds of failure, kept apart.
//
//   fail(...)     bad input: a damaged file, a bad flag, a wrong shape. Throws Error.
//   require(...)  a bug: a violated precondition. Prints the source location, then aborts.
//
// A message reads "thing: expected X, found Y", and what to do where that is not obvious.
// Only cli/ and serve/ catch Error. Nothing catches a violated precondition.
#pragma once

#include <source_location>
#include <stdexcept>
#include <string>
#include <string_view>

#include "base/cat.h"

namespace deltasane {

enum class Fault {
  usage,     // a setting or a request that cannot be understood
  argument,  // an operator was given a wrong shape or value
  file,      // a file is missing, damaged or of another format
  device,    // no such device, or not enough memory on it
  overflow,  // a value is not finite or out of range
};

class Error : public std::runtime_error {
 public:
  Error(Fault fault, const std::string& message) : std::runtime_error(message), fault_(fault) {}
  Fault fault() const { return fault_; }

 private:
  Fault fault_;
};

template <class... Part>
[[noreturn]] void fail(Fault fault, const Part&... part) {
  throw Error(fault, cat(part...));
}

[[noreturn]] void precondition_failed(std::string_view precondition, std::source_location at);

constexpr void require(bool holds, std::string_view precondition,
                       std::source_location at = std::source_location::current()) {
  if (!holds) [[unlikely]]
    precondition_failed(precondition, at);
}

}  // namespace deltasane
