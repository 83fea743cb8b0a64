#include "probe/memory_shapes.h"

#include <algorithm>
#include <charconv>

#include "base/printable.h"

namespace deltasane::probe {

MemoryShapes::MemoryShapes(const StateLayout& layout) : layers_(layout.layers()) {
  const std::span<const StateHead> heads = layout.heads();
  const bool alike = !heads.empty() &&
                     int64_t(heads.size()) == layers_ * layout.most_heads() &&
                     std::ranges::all_of(heads, [&](const StateHead& head) {
                       return head.rows == heads[0].rows && head.columns == heads[0].rows;
                     });
  if (alike) {
    heads_ = layout.most_heads(), square_ = heads[0].rows;
    return;
  }
  for (const StatePart& part : layout.parts())
    if (part.kind == StateKind::memory)
      memories_.push_back({part.layer, part.shape[0], part.shape[1], part.shape[2]});
}

MemoryShapes::MemoryShapes(const RecordTable& table) : layers_(table.count_setting("layers")) {
  if (table.has_setting("memories")) {
    read_memories(table);
  } else {
    heads_ = table.count_setting("heads");
    square_ = table.count_setting("head_size");
  }
}

void MemoryShapes::read_memories(const RecordTable& table) {
  constexpr int64_t most = 1 << 20;
  const std::string& text = table.setting("memories");
  const char* at = text.data();
  const char* const end = at + text.size();
  const auto refuse = [&] {
    fail(Fault::file, "records of ", table.header.table,
         ": memories: expected LAYER:HEADSxROWSxCOLUMNS and commas, found ", printable(text));
  };
  const auto number = [&](int64_t least, char follows) {
    int64_t value = 0;
    const auto [next, error] = std::from_chars(at, end, value);
    if (error != std::errc() || value < least || value > most) refuse();
    at = next;
    if (at != end && *at++ != follows) refuse();
    return value;
  };
  while (at != end) {
    Memory memory{};
    memory.layer = number(0, ':');
    memory.heads = number(1, 'x');
    memory.rows = number(1, 'x');
    memory.columns = number(1, ',');
    memories_.push_back(memory);
  }
}

Settings MemoryShapes::settings() const {
  Settings made{{"layers", cat(layers_)}};
  if (square_ > 0) {
    made.emplace_back("heads", cat(heads_));
    made.emplace_back("head_size", cat(square_));
    return made;
  }
  std::string all;
  for (const Memory& m : memories_)
    all += cat(all.empty() ? "" : ",", m.layer, ":", m.heads, "x", m.rows, "x", m.columns);
  made.emplace_back("memories", all);
  return made;
}

int64_t MemoryShapes::entries(int64_t layer, int64_t head) const {
  if (square_ > 0) return square_ * square_;
  int64_t left = head;
  for (const Memory& m : memories_) {
    if (m.layer != layer) continue;
    if (left < m.heads && left >= 0) return m.rows * m.columns;
    left -= m.heads;
  }
  fail(Fault::file, "records: expected a head of the model's memories, found head ", head,
       " of layer ", layer);
}

int64_t MemoryShapes::most_entries() const {
  int64_t most = square_ * square_;
  for (const Memory& m : memories_) most = std::max(most, m.rows * m.columns);
  return most;
}

}  // namespace deltasane::probe
