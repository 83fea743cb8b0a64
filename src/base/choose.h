// Turn a run-time value into a compile-time one, once, outside the loop. A value that is not among
// the options is an error that lists them.
#pragma once

#include "base/error.h"

namespace deltasane {

template <int... Option, class Body>
void choose(long long value, std::string_view what, Body&& body) {
  const bool found = ((value == Option && (body.template operator()<Option>(), true)) || ...);
  if (!found) {
    std::string options;
    ((options += cat(options.empty() ? "" : ", ", Option)), ...);
    fail(Fault::argument, what, ": expected one of ", options, ", found ", value);
  }
}

}  // namespace deltasane
