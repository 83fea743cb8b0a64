#include "house/finding.h"

namespace deltasane::house {

std::string to_string(const Findings& findings) {
  std::string text;
  for (const Finding& finding : findings) text += finding.where + ": " + finding.what + "\n";
  return text;
}

}  // namespace deltasane::house
