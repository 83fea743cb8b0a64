// The allocator of a double-array trie: gives each state of a TokenTrie a distinct base such that
// its children fall on free nodes. Bases and nodes are allocated in blocks of 256, since base ^
// byte stays in its block.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace deltasane {

class DoubleArray {
 public:
  // The base of a state with children under these bytes (at least one); marks their nodes as used.
  uint32_t allocate(std::span<const uint8_t> children);
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
