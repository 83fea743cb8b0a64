// ISA symbols: an object that was compiled for a wide instruction set must not define code that
// other objects share, because the linker keeps one copy for everyone, and on an older processor
// the wide one is an illegal instruction.
//
// So in such an object a weak symbol (nm: W, V, u) must be in namespace deltasane::kernel::cpu, and
// must not be defined for a second instruction set under the same name.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "house/finding.h"

namespace deltasane::house {

struct IsaObject {
  std::string isa;      // "portable", "avx2", ...
  std::string path;     // of the object
  std::string symbols;  // output of nm, names not demangled
};

Findings check_isa_symbols(const std::vector<IsaObject>& objects);

// Reads the list that the build wrote, "ISA PATH" on each line, and runs nm on each object.
std::vector<IsaObject> read_isa_objects(const std::string& list_file, const std::string& nm);

}  // namespace deltasane::house
