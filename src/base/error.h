// Two kinds of failure, kept apart.
//
//   fail(...)     the world is wrong: a bad file, a bad flag, a wrong shape. Throws Error.
//   require(...)  this program is wrong: a broken precondition. Says where, then aborts.
//
// A message reads "thing: expected X, found Y", and what to do where that is not plain.
// Only cli/ and serve/ catch Error. Nothing catches a broken promise.
#pragma once

#include <source_location>
#include <stdexcept>
#include <string>
#include <string_view>

#include "base/cat.h"

namespace deltasane {

enum class Fault {
  usage,     // a flag or a request that cannot be understood
  argument,  // an operator was given a wrong shape or value
  file,      // a file is missing, damaged or of another kind
  device,    // no such device, or too little of it
  overflow,  // numbers left the finite range
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

[[noreturn]] void broken_promise(std::string_view promise, std::source_location at);

constexpr void require(bool kept, std::string_view promise,
                       std::source_location at = std::source_location::current()) {
  if (!kept) [[unlikely]]
    broken_promise(promise, at);
}

}  // namespace deltasane
