#include "probe/state_grid.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace deltasane::probe {
namespace {

void place_heads(const StateLayout& layout, StateGrid& grid) {
  const std::span<const StateHead> heads = layout.heads();
  int64_t column = 0;
  for (const StateHead& head : heads) {
    if (grid.bands.empty() || grid.bands.back().layer != head.layer) {
      grid.bands.push_back({head.layer, grid.rows, 0});
      column = 0;
    }
    StateGrid::Band& band = grid.bands.back();
    grid.blocks.push_back({band.row, column});
    column += head.columns;
    band.rows = std::max(band.rows, head.rows);
    grid.rows = band.row + band.rows;
    grid.columns = std::max(grid.columns, column);
  }
  grid.is_regular = int64_t(grid.bands.size()) == layout.layers() &&
                    int64_t(heads.size()) == layout.layers() * layout.most_heads() &&
                    std::ranges::all_of(heads, [&](const StateHead& head) {
                      return head.rows == heads[0].rows && head.columns == heads[0].columns;
                    });
}

}  // namespace

StateGrid grid_of(const SequenceState& state) {
  StateGrid grid;
  place_heads(state.layout(), grid);
  grid.values.assign(size_t(grid.rows * grid.columns), std::numeric_limits<float>::quiet_NaN());
  for (size_t i = 0; i < grid.blocks.size(); ++i) {
    const StateHead& head = state.layout().heads()[i];
    const auto [row, column] = grid.blocks[i];
    const std::span<const float> entries = state.of(head);
    for (int64_t r = 0; r < head.rows; ++r)
      for (int64_t c = 0; c < head.columns; ++c)
        grid.values[size_t((row + r) * grid.columns + column + c)] =
            std::abs(entries[size_t(r * head.columns + c)]);
  }
  return grid;
}

}  // namespace deltasane::probe
