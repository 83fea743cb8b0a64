// The tokens of a vocabulary as a trie, for greedy longest-match encoding.
//
// The trie is a double array: every state has a distinct base, and its child under byte c is
// nodes_[base ^ c] if that node has the label c. Because bases are distinct, the label alone
// identifies the parent. Base 0 is reserved and has no children: it is the base of all leaves.
//
// A search from the root for every token is replaced by starts_, a table of the states after the
// first two bytes.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "text/vocabulary/vocabulary.h"

namespace deltasane {

class TokenTrie {
 public:
  explicit TokenTrie(const Vocabulary& vocabulary);

  void append_longest_matches(std::string_view text, std::vector<int32_t>& ids) const;

 private:
  struct Node {
    static constexpr uint32_t no_label = 256;
    uint32_t base = 0;
    uint32_t tag = no_label;  // id << 9 | label; id 0: no token ends here
    uint32_t label() const { return tag & 511; }
    int32_t id() const { return int32_t(tag >> 9); }
  };
  struct Start {
    uint32_t base;
    uint32_t tag;  // id << 1 | 1 if the token is both bytes, 0 if it is the first
  };

  void allocate_states(const Vocabulary& vocabulary);
  void fill_starts();

  std::vector<Node> nodes_;    // a multiple of 256, so base ^ c is always inside
  std::vector<Start> starts_;  // 65536: first byte << 8 | second byte
  uint32_t root_ = 0;          // the root's base
};

}  // namespace deltasane
