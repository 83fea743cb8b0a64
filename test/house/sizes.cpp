#include "house/sizes.h"

#include "base/cat.h"
#include "house/text.h"

namespace deltasane::house {

Sizes check_sizes(const std::vector<Source>& sources) {
  Sizes sizes;
  for (const Source& source : sources) {
    const size_t lines = lines_of(source.text).size();
    if (lines > 800)
      sizes.too_long.push_back({source.path, cat("expected at most 800 lines, found ", lines)});
    else if (lines > 500)
      sizes.long_ones.push_back({source.path, cat(lines, " lines, over 500 needs a reason")});
  }
  return sizes;
}

}  // namespace deltasane::house
