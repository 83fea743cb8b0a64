// Unicode's normal form C (UAX #15): canonical decomposition, then canonical composition.
#pragma once

#include <string>
#include <string_view>

namespace deltasane::unicode {

// Bytes that are no UTF-8 stay as they are, and nothing composes across them.
std::string nfc(std::string_view text);

}  // namespace deltasane::unicode
