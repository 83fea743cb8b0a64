// The bytes of a record file; docs/stream-records.md has the table.
#pragma once

#include <cstdint>
#include <string_view>

namespace deltasane::probe {

inline constexpr std::string_view record_magic =
    "\x89"
    "DSREC"
    "\r\n";
inline constexpr std::string_view group_magic = "ROWS";
inline constexpr uint32_t record_version = 1;
inline constexpr uint32_t max_record_header = 1 << 20;
inline constexpr uint64_t record_checksum = 8, group_prefix = 8;  // magic, number of rows

}  // namespace deltasane::probe
