// Ends a stream of text at the first stop string in it.
//
// The stop string that is complete first wins; of several that end at the same byte, the longest.
// So the output does not depend on how the text is split into chunks. Text that may still become a
// stop string is held back. If text and stop strings are valid UTF-8, characters are never split.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace deltasane {

class TextStop {
 public:
  explicit TextStop(std::vector<std::string> stops);  // an empty stop string is an error

  // Text that is safe to emit. It ends before the stop string; empty after that.
  std::string feed(std::string_view text);
  std::string finish();  // at the end of the text: what was held back; empty after a stop

  bool stopped() const { return found_.has_value(); }
  bool holds() const { return !held_.empty(); }  // text that may become a stop string
  std::string_view stop() const;  // the string that was found; empty before
  void restart();                 // resets it for another text

 private:
  // Knuth, Morris and Pratt: `matched` bytes of the stop string end the text so far, and
  // fallback[n] is the longest proper prefix that also ends the first n+1 bytes.
  struct Pattern {
    std::string text;
    std::vector<size_t> fallback;
    size_t matched = 0;
    void step(char c);
  };

  std::vector<Pattern> patterns_;
  std::string held_;
  std::optional<size_t> found_;  // index into patterns_
};

}  // namespace deltasane
