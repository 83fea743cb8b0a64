// Greps: constructs that are allowed in one place, or nowhere.
//
//   <<<            only in the launch header: elsewhere the launch would be unchecked
//   assert(        nowhere: release builds compile it out; use require or fail
//   printf family  only in src/cli: a library does not print
//   #if, #ifdef    only in src/base, src/kernel/isa* and src/*/config*: choose files, not lines
//   std::regex     nowhere: its stack grows with its input
//   TO-DO marks    nowhere (in comments): a plan belongs in an issue
//   "--flag"       only in src/cli (tests excepted): messages of other folders name settings
#pragma once

#include "house/finding.h"
#include "house/tree.h"

namespace deltasane::house {

Findings check_greps(const std::vector<Source>& sources);

}  // namespace deltasane::house
