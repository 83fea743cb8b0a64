#include "text/bpe/merge_table.h"

#include <algorithm>
#include <bit>
#include <optional>

#include "base/error.h"

namespace deltasane {
namespace {

uint64_t mixed(uint64_t key) {
  key = (key ^ key >> 30) * 0xBF58476D1CE4E5B9u;
  key = (key ^ key >> 27) * 0x94D049BB133111EBu;
  return key ^ key >> 31;
}

}  // namespace

// The slot of the key, or the empty one where it belongs.
size_t MergeTable::find(const std::vector<Entry>& table, uint64_t key) {
  const size_t mask = table.size() - 1;
  size_t slot = mixed(key) & mask;
  while (table[slot].key != key && table[slot].key != empty) slot = (slot + 1) & mask;
  return slot;
}

void MergeTable::reserve(size_t merges) {
  require(count_ == 0, "room for merges is made before the first");
  merges_.assign(std::bit_ceil(2 * merges + 2), {});
  joints_.assign(merges_.size(), {});
}

bool MergeTable::add(const Merge& merge, uint32_t rank) {
  require(2 * (size_t{count_} + 1) <= merges_.size(), "there is room for each merge");
  const uint64_t key = key_of(merge.left, merge.right);
  Entry& entry = merges_[find(merges_, key)];
  if (entry.key == key) return false;
  entry = {key, rank, merge.whole};
  ++count_;
  const uint64_t joint = key_of(merge.left_end, merge.right_begin);
  joints_[find(joints_, joint)].key = joint;
  return true;
}

const MergeTable::Entry* MergeTable::merge_of(int32_t left, int32_t right) const {
  const uint64_t key = key_of(left, right);
  const Entry& entry = merges_[find(merges_, key)];
  return entry.key == key ? &entry : nullptr;
}

bool MergeTable::may_join(int32_t left, int32_t right) const {
  const uint64_t key = key_of(left, right);
  return joints_[find(joints_, key)].key == key;
}

// No merge ever crosses neighbours that end and begin no two parts of a merge. The sequence is cut
// there, which changes nothing and keeps the heaps small.
void MergeTable::append_joined(std::span<const int32_t> symbols, Scratch& scratch,
                               std::vector<int32_t>& ids) const {
  size_t begin = 0;
  for (size_t i = 1; i <= symbols.size(); ++i)
    if (i == symbols.size() || !may_join(symbols[i - 1], symbols[i])) {
      join(symbols.subspan(begin, i - begin), scratch, ids);
      begin = i;
    }
}

void MergeTable::join(std::span<const int32_t> symbols, Scratch& scratch,
                      std::vector<int32_t>& ids) const {
  if (symbols.size() == 1) return ids.push_back(symbols[0]);
  auto& [nodes, heap] = scratch;
  constexpr int32_t none = -1;
  if (symbols.size() > size_t(INT32_MAX))
    fail(Fault::argument, "text: expected fewer than 2^31 characters that may join, found ",
         symbols.size());
  const auto count = int32_t(symbols.size());
  nodes.resize(size_t(count));
  heap.clear();
  const auto candidate = [&](int32_t at) -> std::optional<Scratch::Candidate> {
    if (at == none || nodes[size_t(at)].after == none) return std::nullopt;
    const int32_t left = nodes[size_t(at)].id;
    const int32_t right = nodes[size_t(nodes[size_t(at)].after)].id;
    const Entry* const entry = merge_of(left, right);
    if (!entry) return std::nullopt;
    return Scratch::Candidate{entry->rank, at, left, right, entry->whole};
  };
  for (int32_t i = 0; i < count; ++i)
    nodes[size_t(i)] = {symbols[size_t(i)], i - 1, i + 1 < count ? i + 1 : none};
  for (int32_t i = 0; i < count; ++i)
    if (const auto next = candidate(i)) heap.push_back(*next);
  std::make_heap(heap.begin(), heap.end());
  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end());
    const Scratch::Candidate best = heap.back();
    heap.pop_back();
    Scratch::Node& left = nodes[size_t(best.at)];
    // Another merge may have taken one of the two. A node that is gone has no id.
    if (left.id != best.left || left.after == none) continue;
    Scratch::Node& right = nodes[size_t(left.after)];
    if (right.id != best.right) continue;
    left.id = best.whole;
    right.id = none;
    left.after = right.after;
    if (left.after != none) nodes[size_t(left.after)].before = best.at;
    for (const int32_t at : {left.before, best.at})
      if (const auto next = candidate(at)) {
        heap.push_back(*next);
        std::push_heap(heap.begin(), heap.end());
      }
  }
  for (int32_t at = 0; at != none; at = nodes[size_t(at)].after) ids.push_back(nodes[size_t(at)].id);
}

}  // namespace deltasane
