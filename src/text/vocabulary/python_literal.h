// A Python string literal as repr() writes it: '...' or "..." for text, b'...' or b"..." for bytes.
//
// \xHH is a code point in text (two bytes of UTF-8 from \x80 on) and a byte in bytes. Known
// escapes: \\ \' \" \n \r \t \xHH, and \uHHHH \UHHHHHHHH in text. repr() writes no others, so any
// other one is rejected, as are raw control characters, raw bytes above 7F in bytes, invalid UTF-8,
// and surrogates.
#pragma once

#include <string>

#include "text/vocabulary/cursor.h"

namespace deltasane {

std::string read_python_literal(Cursor& cursor);  // its bytes; leaves the cursor behind the quote

// As text where the bytes are UTF-8, and else as bytes. One line of printable characters.
std::string python_literal_of(std::string_view bytes);

}  // namespace deltasane
