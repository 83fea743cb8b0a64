// How far a long command is, on standard error: one line that is written over on a terminal;
// elsewhere a line now and then.
#pragma once

#include <string>

#include "corpus/source.h"

namespace deltasane::cli {

class ProgressLine {
 public:
  enum class First { at_once, after_a_pause };  // the latter for what may be over in no time
  explicit ProgressLine(First first);
  // Whether it is time for another one. Then call show.
  bool due();
  void show(const std::string& text);
  void end() const;
  double seconds() const;  // since it was made

 private:
  bool terminal_, begun_ = false;
  double start_, shown_ = 0;
};

// Shows how far the opening of a corpus is. `line` must outlive it.
corpus::OpeningProgress opening_progress(ProgressLine& line);

}  // namespace deltasane::cli
