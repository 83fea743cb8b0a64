#include "infer/state_layout.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "base/checked.h"
#include "base/printable.h"

namespace deltasane {

uint64_t payload_bytes(std::span<const FilePart> parts, std::string_view name) {
  if (parts.empty() || parts.size() > max_parts)
    fail(Fault::file, name, ": state: expected 1 to ", max_parts, " parts, found ", parts.size());
  uint64_t floats = 0;
  std::set<int64_t> with_memory;  // layers
  int64_t last_with_memory = -1;
  for (const FilePart& part : parts) {
    const auto refuse = [&](const auto&... found) {
      fail(Fault::file, name, ": state, ", printable(part.name), " of layer ", part.layer, ": ",
           found...);
    };
    if (!std::ranges::all_of(part.name, [](char c) { return c >= ' ' && c <= '~'; }))
      refuse("expected a name of printable characters");
    if (part.layer < 0 || part.layer >= max_state_size)
      refuse("expected a layer from 0 to ", max_state_size - 1);
    if (part.kind > StateKind::cache)
      refuse("expected a kind from 0 to ", uint32_t(StateKind::cache), ", found ",
             uint32_t(part.kind));
    if (part.shape.rank() < 1 || (part.kind == StateKind::memory && part.shape.rank() != 3))
      refuse("expected ", part.kind == StateKind::memory ? "3" : "1 or more",
             " dimensions, found ", part.shape.rank());
    for (const int64_t size : part.shape)
      if (size < 1 || size > max_state_size)
        refuse("expected sizes from 1 to ", max_state_size, ", found ", part.shape);
    if (part.rows < 0 || part.rows > max_cache_rows ||
        (part.kind != StateKind::cache && part.rows != 1))
      refuse("expected 1 row, or up to ", max_cache_rows, " of a cache, found ", part.rows);
    if (part.kind == StateKind::memory && last_with_memory != part.layer) {
      last_with_memory = part.layer;
      if (!with_memory.insert(part.layer).second)
        refuse("expected the memories of a layer one after another, found others between them");
    }
    const uint64_t own =
        checked_multiply(checked_product(part.shape, name), uint64_t(part.rows), name);
    floats = checked_add(floats, own, name);
  }
  return checked_multiply(sizeof(float), floats, name);
}

bool is_part_name(std::string_view name) {
  return !name.empty() && name.size() <= max_part_name &&
         std::ranges::all_of(name, [](char one) { return one >= ' ' && one <= '~'; });
}

void check_sane(const SaneUse& sane, std::string_view name) {
  const bool none = sane.kind == SaneKind::none && sane.alpha == 0 && sane.chunk == 0;
  const bool strength = sane.kind == SaneKind::run_time
                            ? is_run_time_alpha(sane.alpha)
                            : std::isfinite(sane.alpha) && sane.alpha > 0;
  const bool some = sane.kind != SaneKind::none && strength && sane.chunk > 0;
  if (!none && !some)
    fail(Fault::file, name, ": SANE: expected none with alpha 0, chunk 0, or a tau and a chunk ",
         "above 0, found ", name_of(sane.kind), " with alpha ", sane.alpha, ", chunk ", sane.chunk);
}

}  // namespace deltasane
