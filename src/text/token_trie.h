// All tokens of a vocabulary as one automaton, to find the longest token at a place of a text.
//
// The automaton is a double array: every state owns a base, different from all others, and the
// state reached from it by byte c lies at nodes_[base ^ c] if that node carries the label c.
// Because bases differ, the label alone tells whose child a node is. Base 0 belongs to no state,
// so it has no children: it is the base of all leaves.
//
// Greedy search would start at the root for every token. Instead starts_, indexed by the first two
// bytes, holds where they lead.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "text/vocabulary.h"

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

  void place_states(const Vocabulary& vocabulary);
  void fill_starts();

  std::vector<Node> nodes_;    // a multiple of 256, so base ^ c is always inside
  std::vector<Start> starts_;  // 65536: first byte << 8 | second byte
  uint32_t root_ = 0;          // the root's base
};

}  // namespace deltasane
