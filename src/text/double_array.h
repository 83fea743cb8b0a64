// Where the states of a TokenTrie lie: gives each state a base of its own such that its children
// fall on free nodes. Bases and nodes are used in blocks of 256, since base ^ byte stays in its
// block.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace deltasane {

class DoubleArray {
 public:
  // The base of a state with children under these bytes (at least one). Their nodes are then used.
  uint32_t place(std::span<const uint8_t> children);
  size_t nodes() const { return blocks_.size() * 256; }

 private:
  struct Bits {
    std::array<uint64_t, 4> words{};
    bool get(uint32_t i) const { return words[i >> 6] >> (i & 63) & 1; }
    void set(uint32_t i) { words[i >> 6] |= uint64_t{1} << (i & 63); }
  };
  struct Block {
    Bits used_nodes, used_bases;
  };

  static int base_in(const Block& block, std::span<const uint8_t> children);  // -1: does not fit
  std::vector<Block> blocks_;
};

}  // namespace deltasane
