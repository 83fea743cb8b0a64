// Where a GPU has too little memory: what was needed for what, and which setting lowers it.
#pragma once

#include <string_view>

#include "base/error.h"

namespace deltasane::cli {

template <class Body>
auto with_memory_advice(std::string_view advice, Body body) {
  try {
    return body();
  } catch (const Error& error) {
    if (error.fault() != Fault::device ||
        !std::string_view(error.what()).starts_with("GPU memory: "))
      throw;
    fail(Fault::device, error.what(), "; ", advice);
  }
}

}  // namespace deltasane::cli
