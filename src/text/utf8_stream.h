// Bytes in, whole characters out.
//
// Tokens may end inside a character. feed() returns the characters that are complete and buffers
// the rest (at most three bytes). Bytes that can no longer become a character are replaced: one
// U+FFFD for each maximal invalid subpart (Unicode 3.9). The whole output is always valid UTF-8 and
// does not depend on how the bytes were split.
#pragma once

#include <string>
#include <string_view>

namespace deltasane {

class Utf8Stream {
 public:
  std::string feed(std::string_view bytes);
  std::string finish();  // what is buffered, as one U+FFFD; resets the stream
  bool inside_character() const { return !buffered_.empty(); }

 private:
  std::string buffered_;
};

}  // namespace deltasane
