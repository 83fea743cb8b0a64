// Numbers of the ZIP format that its reader and its writer share.
#pragma once

#include <cstdint>

namespace deltasane::zip {

inline constexpr uint32_t local_signature = 0x04034b50, central_signature = 0x02014b50,
                          end_signature = 0x06054b50, end64_signature = 0x06064b50,
                          locator_signature = 0x07064b50, descriptor_signature = 0x08074b50;
inline constexpr uint64_t end_size = 22, end64_size = 56, locator_size = 20;
// Of a field whose number is in the 64-bit record or extra field instead.
inline constexpr uint32_t full32 = 0xffffffff;
inline constexpr uint16_t full16 = 0xffff;
inline constexpr uint16_t descriptor_flag = 0x0008, utf8_flag = 0x0800;

}  // namespace deltasane::zip
