// The contents of \boxed{...} and \fbox{...}.
#pragma once

#include <string>
#include <string_view>

namespace deltasane::answers {

enum class Boxes {
  all,   // every box, joined with commas
  last,  // the last box, and those before it that clearly belong to it
};

// A text without boxes is returned as it is.
std::string boxed_content(std::string_view text, Boxes which);

}  // namespace deltasane::answers
