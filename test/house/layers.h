// Layers: a folder of src/ may include itself and folders of strictly lower layers.
//
//     6  cli   api
//     5  eval   serve
//     4  train  infer  probe
//     3  model  corpus
//     2  kernel   format   comm
//     1  tensor   text   plot   answers
//     0  base
//
// A test beside the code may also include "support/...".
#pragma once

#include "house/finding.h"
#include "house/tree.h"

namespace deltasane::house {

Findings check_layers(const std::vector<Source>& sources);

}  // namespace deltasane::house
