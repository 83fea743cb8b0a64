// The columns of a stream's tables; docs/stream-records.md says what they hold.
#pragma once

#include <vector>

#include "probe/record_file.h"

namespace deltasane {

std::vector<probe::Column> segments_columns();
std::vector<probe::Column> heads_columns();
std::vector<probe::Column> probes_columns();
std::vector<probe::Column> losses_columns();

inline constexpr const char* small_entries_column = "below_0.1";  // of heads; not in older runs

}  // namespace deltasane
