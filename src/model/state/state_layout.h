// What a model remembers of one sequence, described: named parts per layer, each of a fixed size or
// growing by a row with every token read.
//
//   memory        (head, value, key)   the matrices of a recurrence; SANE acts on these
//   shift         (channel)            the last token's input of a token shift
//   convolution   (tap, channel)       the last inputs of a short convolution, oldest first
//   cache         (...) of one token   keys and values of attention; grows
//
// Layers may be of different kinds, have no memory, or have other head counts and widths than their
// neighbours. State files, clones, statistics, heat maps and SANE's records are made from this
// description alone. The fixed parts of a state lie in one row of floats, in the order in which they
// were added, without gaps.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tensor/view.h"

namespace deltasane {

enum class StateKind : uint32_t { memory, shift, convolution, cache };
std::string_view name_of(StateKind kind);

struct StatePart {
  std::string name;
  StateKind kind = StateKind::memory;
  int64_t layer = 0;
  Shape shape;         // of a cache: one token's row
  int64_t offset = 0;  // of the first float among the fixed parts; a cache: its number among caches

  int64_t floats() const { return shape.elements(); }  // of a cache: in one row
  bool grows() const { return kind == StateKind::cache; }
  friend bool operator==(const StatePart&, const StatePart&) = default;
};

// One matrix of a memory part. Heads are numbered over the whole model, in the order of the parts.
struct StateHead {
  int64_t layer = 0, head = 0;  // head: in its layer
  int64_t rows = 0, columns = 0;
  int64_t offset = 0;  // of its first float among the fixed parts
  int64_t floats() const { return rows * columns; }
};

class StateLayout {
 public:
  // Memories of one layer are added one after another: its heads are numbered through them. Parts
  // of one kind should be added side by side: devices scan runs of floats of one kind.
  void add(std::string name, StateKind kind, int64_t layer, const Shape& shape);

  std::span<const StatePart> parts() const { return parts_; }
  std::span<const StateHead> heads() const { return heads_; }
  int64_t layers() const { return layers_; }  // one more than the last that has a part
  int64_t floats() const { return floats_; }  // of all fixed parts
  int64_t caches() const { return caches_; }
  const StatePart& cache(int64_t number) const;
  int64_t cache_floats() const;  // that all caches grow by with a token

  // The heads of one layer, numbered as in heads().
  struct HeadRange {
    int64_t first = 0, count = 0;
  };
  HeadRange heads_of(int64_t layer) const;
  int64_t most_heads() const;  // in one layer

  // What one differs in from another, for people: "memory of layer 3: expected (2, 3, 3), found ..".
  std::string difference(const StateLayout& other) const;
  friend bool operator==(const StateLayout& a, const StateLayout& b) { return a.parts_ == b.parts_; }

 private:
  std::vector<StatePart> parts_;
  std::vector<StateHead> heads_;
  int64_t layers_ = 0, floats_ = 0, caches_ = 0;
};

// Layers that all have two token shifts and square heads: what state files of version 1 hold.
StateLayout shifts_and_square_heads(int64_t layers, int64_t channels, int64_t heads,
                                    int64_t head_size);

}  // namespace deltasane
