// The merges of a byte-pair encoding: which neighbours become one token, and in which order.
//
// Of all neighbours in a sequence that have a merge, those of the lowest rank are joined first, and
// of equal ones the leftmost, until none is left. That definition takes quadratic time; this uses a
// heap over a linked list, O(n log n) for any text.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace deltasane {

class MergeTable {
 public:
  struct Merge {
    int32_t left, right, whole;
    // The last symbol that the left one is made of, and the first of the right one.
    int32_t left_end, right_begin;
  };

  // Room for so many merges, which are then added. False: the pair has a merge already.
  void reserve(size_t merges);
  bool add(const Merge& merge, uint32_t rank);

  // Joins the symbols and appends the tokens to `ids`. Scratch memory is reused between calls.
  struct Scratch {
    struct Node {
      int32_t id, before, after;
    };
    struct Candidate {
      uint32_t rank;
      int32_t at, left, right, whole;
      bool operator<(const Candidate& other) const {  // the top of a heap is the first to join
        return rank != other.rank ? rank > other.rank : at > other.at;
      }
    };
    std::vector<Node> nodes;
    std::vector<Candidate> heap;
  };
  void append_joined(std::span<const int32_t> symbols, Scratch& scratch,
                     std::vector<int32_t>& ids) const;

 private:
  // Open addressing; a power of two that is at least twice the number of keys.
  struct Entry {
    uint64_t key = empty;
    uint32_t rank = 0;
    int32_t whole = 0;
  };
  static constexpr uint64_t empty = ~uint64_t{0};
  static uint64_t key_of(int32_t a, int32_t b) {
    return uint64_t(uint32_t(a)) << 32 | uint32_t(b);
  }
  static size_t find(const std::vector<Entry>& table, uint64_t key);
  const Entry* merge_of(int32_t left, int32_t right) const;
  bool may_join(int32_t left, int32_t right) const;
  void join(std::span<const int32_t> symbols, Scratch& scratch, std::vector<int32_t>& ids) const;

  std::vector<Entry> merges_, joints_;
  uint32_t count_ = 0;
};

}  // namespace deltasane
