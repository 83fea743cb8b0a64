// The shapes of a model's memories, as the settings of its records say them.
//
//   layers, heads, head_size   as many heads in every layer, each head_size x head_size
//   layers, memories           anything else: LAYER:HEADSxROWSxCOLUMNS of each, "0:2x6x4,2:3x5x3";
//                              heads of one layer are numbered through its memories
#pragma once

#include <cstdint>
#include <vector>

#include "model/state/state_layout.h"
#include "probe/record_file.h"

namespace deltasane::probe {

class MemoryShapes {
 public:
  explicit MemoryShapes(const StateLayout& layout);
  explicit MemoryShapes(const RecordTable& table);  // untrusted; fails where its settings are odd

  Settings settings() const;

  bool empty() const { return square_ == 0 && memories_.empty(); }  // a model without memory
  int64_t entries(int64_t layer, int64_t head) const;  // fails where there is no such head
  int64_t most_entries() const;                        // of one head

 private:
  struct Memory {
    int64_t layer, heads, rows, columns;
  };
  void read_memories(const RecordTable& table);

  int64_t layers_ = 0;
  int64_t heads_ = 0, square_ = 0;  // where all are alike
  std::vector<Memory> memories_;    // elsewhere
};

}  // namespace deltasane::probe
