#include "support/scratch.h"

#include <cstdlib>
#include <string>

#include "base/error.h"

namespace deltasane::test {

Scratch::Scratch() {
  std::string name = (std::filesystem::temp_directory_path() / "deltasane-test-XXXXXX").string();
  require(::mkdtemp(name.data()) != nullptr, "a test can create a temporary folder");
  path_ = name;
}

Scratch::~Scratch() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace deltasane::test
