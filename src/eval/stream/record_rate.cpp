#include "eval/stream/record_rate.h"

#include <bit>

#include "base/cat.h"
#include "eval/stream/record_columns.h"
#include "probe/record_layout.h"

namespace deltasane {
namespace {

constexpr int64_t per_doubling = 128;

// A group of rows of numbers alone.
int64_t group_bytes(int64_t rows, size_t columns) {
  return int64_t(probe::group_prefix(probe::numbers_version) + probe::record_checksum) +
         rows * int64_t(columns) * 8;
}

}  // namespace

bool HeadRate::due(int64_t position, int64_t segment) const {
  if (every > 0) return position % every == 0 || position % segment != 0;
  const int64_t number = position / segment;
  if (position % segment != 0 || number < 2 * per_doubling) return true;
  const int64_t apart = std::bit_floor(uint64_t(number)) / per_doubling;
  return number % apart == 0;
}

std::string HeadRate::description() const {
  if (every > 0) return cat(every, " tokens");
  return cat("segment up to ", 2 * per_doubling, ", then ", per_doubling, " for each doubling");
}

int64_t record_bytes(int64_t tokens, int64_t segment, HeadRate rate, int64_t heads) {
  const int64_t around_losses = int64_t(probe::group_prefix(probe::record_version) +
                                        probe::record_checksum + 2 * 8 + sizeof(uint32_t));
  const size_t segment_columns = segments_columns().size(), head_columns = heads_columns().size();
  int64_t bytes = tokens;  // a byte for each loss
  for (int64_t from = 0; from < tokens; from += segment) {
    const int64_t position = from + segment < tokens ? from + segment : tokens;
    bytes += around_losses + group_bytes(1, segment_columns);
    if (rate.due(position, segment)) bytes += group_bytes(heads, head_columns);
  }
  return bytes;
}

}  // namespace deltasane
