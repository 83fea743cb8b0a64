// Bytes in, whole characters out.
//
// Tokens may end inside a character. feed() gives out the characters that are complete and keeps
// the rest (at most three bytes) for later. Bytes that can no longer become a character are
// replaced: one U+FFFD for each longest prefix of a character, or single byte, that was cut off.
// What comes out in all is always valid UTF-8 and does not depend on how the bytes were cut.
#pragma once

#include <string>
#include <string_view>

namespace deltasane {

class Utf8Stream {
 public:
  std::string feed(std::string_view bytes);
  std::string finish();  // gives out what was kept, as one U+FFFD; the stream is then as at first
  bool inside_character() const { return !kept_.empty(); }

 private:
  std::string kept_;
};

}  // namespace deltasane
