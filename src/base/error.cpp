#include "base/error.h"

#include <cstdlib>
#include <iostream>

namespace deltasane {

void broken_promise(std::string_view promise, std::source_location at) {
  std::cerr << at.file_name() << ':' << at.line() << ": broken promise in " << at.function_name()
            << ": " << promise << std::endl;
  std::abort();
}

}  // namespace deltasane
