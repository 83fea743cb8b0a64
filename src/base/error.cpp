#include "base/error.h"

#include <cstdlib>
#include <iostream>

namespace deltasane {

void precondition_failed(std::string_view precondition, std::source_location at) {
  std::cerr << at.file_name() << ':' << at.line() << ": failed precondition in "
            << at.function_name() << ": " << precondition << std::endl;
  std::abort();
}

}  // namespace deltasane
