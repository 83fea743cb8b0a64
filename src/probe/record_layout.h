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
// Version 2 has columns of bytes. Files without such columns are written as version 1.
inline constexpr uint32_t record_version = 2, numbers_version = 1;
inline constexpr uint32_t max_record_header = 1 << 20;
inline constexpr uint64_t record_checksum = 8;
// Magic and number of rows; in version 2 the size of the columns too.
constexpr uint64_t group_prefix(uint32_t version) { return version == numbers_version ? 8 : 16; }

}  // namespace deltasane::probe
