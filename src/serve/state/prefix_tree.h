// States of prompts that were read before, by owner and tokens: a prompt that begins like an earlier
// one is not read again up to there. Tokens are compared, not only hashed, and owners share nothing:
// how fast an answer comes must not tell what others asked.
//
// A state is kept near the end of a prompt, every 4096 tokens, and where a prompt parts from an
// earlier one. All are multiples of the model's tile and leave enough tokens to be read as many rows
// (kernel/matmul/matmul.h), so that an answer has the same bits with a hit and without.
//
// Not for several threads.
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "model/state/sequence_state.h"

namespace deltasane::serve {

class PrefixTree {
 public:
  // Bytes of states, beyond which the least recently used are forgotten.
  PrefixTree(uint64_t most_bytes, int64_t tile) : most_bytes_(most_bytes), tile_(tile) {}

  struct Plan {
    int64_t cached = 0;  // tokens that `state` has read
    std::shared_ptr<const SequenceState> state;  // null: nothing is cached
    std::vector<int64_t> keep_after;  // where to keep states of the rest, in tokens of the prompt
  };
  Plan plan(const std::string& owner, std::span<const int32_t> prompt);
  void keep(const std::string& owner, std::span<const int32_t> tokens, SequenceState state);

  uint64_t bytes() const { return bytes_; }
  size_t states() const { return used_.size(); }

 private:
  struct Node {
    Node* parent = nullptr;
    std::vector<int32_t> tokens;  // from the parent to here
    std::map<int32_t, std::unique_ptr<Node>> children;  // by the first of their tokens
    std::shared_ptr<const SequenceState> state;
    std::list<Node*>::iterator used;
  };
  // Makes a node after so many of its tokens.
  static Node& split(Node& node, size_t after);
  void forget(Node& node);
  void prune(Node* node);

  uint64_t most_bytes_, bytes_ = 0;
  int64_t tile_;
  std::map<std::string, Node> roots_;
  std::list<Node*> used_;  // nodes with a state, the least recently used first
};

}  // namespace deltasane::serve
