#include "text/trie/token_trie.h"

#include <algorithm>
#include <array>
#include <deque>

#include "base/error.h"
#include "text/trie/double_array.h"

namespace deltasane {
namespace {

struct Entry {
  std::string_view bytes;
  int32_t id;
};

// A state without a base yet: the entries that pass through it, and its depth in bytes.
struct State {
  size_t first, last;
  size_t depth;
  uint32_t node;
};
constexpr uint32_t root_node = ~uint32_t{0};

std::vector<Entry> sorted_entries(const std::vector<std::string>& tokens) {
  std::vector<Entry> entries;
  for (size_t id = 0; id < tokens.size(); ++id)
    if (!tokens[id].empty()) entries.push_back({tokens[id], int32_t(id)});
  std::sort(entries.begin(), entries.end(),
            [](const Entry& a, const Entry& b) { return a.bytes < b.bytes; });
  return entries;
}

}  // namespace

TokenTrie::TokenTrie(const Vocabulary& vocabulary) {
  allocate_states(vocabulary);
  fill_starts();
}

void TokenTrie::allocate_states(const Vocabulary& vocabulary) {
  const std::vector<Entry> entries = sorted_entries(vocabulary.tokens());
  DoubleArray array;
  std::vector<uint8_t> labels;
  std::vector<size_t> bounds;
  // Breadth first, so that the most frequent states are close together.
  std::deque<State> waiting{{0, entries.size(), 0, root_node}};
  for (; !waiting.empty(); waiting.pop_front()) {
    const State state = waiting.front();
    labels.clear(), bounds.clear();
    for (size_t i = state.first; i < state.last; ++i) {
      const auto label = uint8_t(entries[i].bytes[state.depth]);
      if (labels.empty() || labels.back() != label) labels.push_back(label), bounds.push_back(i);
    }
    bounds.push_back(state.last);
    const uint32_t base = array.allocate(labels);
    nodes_.resize(array.nodes());
    (state.node == root_node ? root_ : nodes_[state.node].base) = base;
    for (size_t child = 0; child < labels.size(); ++child) {
      const uint32_t node = base ^ labels[child];
      size_t first = bounds[child];
      const bool ends = entries[first].bytes.size() == state.depth + 1;  // the shortest is first
      nodes_[node].tag = (ends ? uint32_t(entries[first].id) << 9 : 0) | labels[child];
      if (ends) ++first;
      if (first < bounds[child + 1])
        waiting.push_back({first, bounds[child + 1], state.depth + 1, node});
    }
  }
}

void TokenTrie::fill_starts() {
  starts_.reserve(65536);
  for (uint32_t a = 0; a < 256; ++a) {
    const Node one = nodes_[root_ ^ a];
    require(one.label() == a && one.id() != 0, "every byte is a token");
    for (uint32_t b = 0; b < 256; ++b) {
      const Node both = nodes_[one.base ^ b];
      const bool follows = both.label() == b;
      const bool token = follows && both.id() != 0;
      starts_.push_back({follows ? both.base : 0,
                         token ? uint32_t(both.id()) << 1 | 1 : uint32_t(one.id()) << 1});
    }
  }
}

void TokenTrie::append_longest_matches(std::string_view text, std::vector<int32_t>& ids) const {
  const Node* const nodes = nodes_.data();
  const Start* const starts = starts_.data();
  const auto* at = reinterpret_cast<const uint8_t*>(text.data());
  const auto* const end = at + text.size();
  std::array<int32_t, 1024> batch;
  size_t filled = 0;
  while (end - at >= 2) {
    const Start start = starts[uint32_t(at[0]) << 8 | at[1]];
    const uint8_t* next = at + 2;
    int32_t id = int32_t(start.tag >> 1);
    at += 1 + (start.tag & 1);
    for (uint32_t base = start.base; base != 0 && next != end;) {
      const Node node = nodes[base ^ *next];
      if (node.label() != *next) break;
      ++next;
      base = node.base;
      if (node.id() != 0) id = node.id(), at = next;
    }
    batch[filled] = id;
    if (++filled == batch.size()) {
      ids.insert(ids.end(), batch.begin(), batch.end());
      filled = 0;
    }
  }
  ids.insert(ids.end(), batch.begin(), batch.begin() + ptrdiff_t(filled));
  if (at != end) ids.push_back(nodes[root_ ^ *at].id());
}

}  // namespace deltasane
