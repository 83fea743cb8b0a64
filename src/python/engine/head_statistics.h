// Statistics of one head's entries (probe/state_statistics.h) under the names that Python shows. The
// public C++ API has classes of the same names as lower layers, so this header includes neither.
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

namespace deltasane::python {

std::vector<std::pair<std::string, double>> head_statistics(std::span<const float> entries,
                                                            double tau);  // 0: no SANE

}  // namespace deltasane::python
