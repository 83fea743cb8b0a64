// Greps: things that have one right place, or none.
//
//   <<<            only in the launch header: elsewhere the launch would go unchecked
//   assert(        nowhere: it vanishes from release builds; use require or fail
//   printf family  only in src/cli: a library does not print
//   #if, #ifdef    only in src/base, src/kernel/isa* and src/*/config*: choose files, not lines
//   std::regex     nowhere: its stack grows with its input
//   TO-DO marks    nowhere (in comments): a plan belongs in an issue
#pragma once

#include "house/finding.h"
#include "house/tree.h"

namespace deltasane::house {

Findings check_greps(const std::vector<Source>& sources);

}  // namespace deltasane::house
