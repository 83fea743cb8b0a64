// Ends a stream of text at the first stop string in it.
//
// The stop string that is complete first wins; of several that end at the same byte, the longest.
// So what is given out does not depend on how the text was cut into pieces. Text that may still
// become a stop string is held back. If text and stop strings are valid UTF-8, characters are
// never cut.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace deltasane {

class TextStop {
 public:
  explicit TextStop(std::vector<std::string> stops);  // an empty stop string is an error

  // Text that may be shown. It ends before the stop string; after it there is no more.
  std::string feed(std::string_view text);
  std::string finish();  // the end of the text: what was held back, which is empty after a stop

  bool stopped() const { return found_.has_value(); }
  std::string_view stop() const;  // the string that was found; empty before
  void restart();                 // for another text

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
