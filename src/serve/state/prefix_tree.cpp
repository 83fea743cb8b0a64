#include "serve/state/prefix_tree.h"

#include <algorithm>

#include "base/error.h"
#include "kernel/matmul/matmul.h"

namespace deltasane::serve {
namespace {

constexpr int64_t regular_distance = 4096;
constexpr int64_t shortest_prompt = 64;  // for which a copy of a state is worth its time

size_t common_length(std::span<const int32_t> a, std::span<const int32_t> b) {
  return size_t(std::ranges::mismatch(a, b).in1 - a.begin());
}

}  // namespace

PrefixTree::Plan PrefixTree::plan(const std::string& owner, std::span<const int32_t> prompt) {
  Plan plan;
  const auto count = int64_t(prompt.size());
  if (most_bytes_ == 0 || count < shortest_prompt) return plan;
  const int64_t last = (count - kernel::matmul_few_tokens - 1) / tile_ * tile_;
  Node* node = &roots_[owner];
  int64_t depth = 0, known = 0;
  for (;;) {
    if (node->state && depth <= last) {
      plan.cached = depth, plan.state = node->state;
      used_.splice(used_.end(), used_, node->used);
    }
    known = depth;
    if (depth == count) break;
    const auto next = node->children.find(prompt[size_t(depth)]);
    if (next == node->children.end()) break;
    const size_t same = common_length(next->second->tokens, prompt.subspan(size_t(depth)));
    known = depth + int64_t(same);
    if (same < next->second->tokens.size()) break;
    node = next->second.get();
    depth = known;
  }
  std::vector<int64_t> places{known / tile_ * tile_, last};
  for (int64_t at = regular_distance; at < last; at += regular_distance) places.push_back(at);
  std::ranges::sort(places);
  places.erase(std::unique(places.begin(), places.end()), places.end());
  for (const int64_t place : places)
    if (place > plan.cached && place <= last) plan.keep_after.push_back(place);
  return plan;
}

PrefixTree::Node& PrefixTree::split(Node& node, size_t after) {
  if (after == node.tokens.size()) return node;
  Node& parent = *node.parent;
  std::unique_ptr<Node>& place = parent.children.at(node.tokens[0]);
  auto middle = std::make_unique<Node>();
  middle->parent = &parent;
  middle->tokens.assign(node.tokens.begin(), node.tokens.begin() + int64_t(after));
  node.tokens.erase(node.tokens.begin(), node.tokens.begin() + int64_t(after));
  node.parent = middle.get();
  middle->children[node.tokens[0]] = std::move(place);
  place = std::move(middle);
  return *place;
}

void PrefixTree::keep(const std::string& owner, std::span<const int32_t> tokens,
                      SequenceState state) {
  Node* node = &roots_[owner];
  while (!tokens.empty()) {
    const auto next = node->children.find(tokens[0]);
    if (next == node->children.end()) {
      auto made = std::make_unique<Node>();
      made->parent = node;
      made->tokens.assign(tokens.begin(), tokens.end());
      node = (node->children[tokens[0]] = std::move(made)).get();
      break;
    }
    const size_t same = common_length(next->second->tokens, tokens);
    node = &split(*next->second, same);
    tokens = tokens.subspan(same);
  }
  if (node->state) return;  // another prompt was here first
  bytes_ += state.bytes();
  node->state = std::make_shared<const SequenceState>(std::move(state));
  node->used = used_.insert(used_.end(), node);
  while (bytes_ > most_bytes_ && !used_.empty()) forget(*used_.front());
}

void PrefixTree::forget(Node& node) {
  bytes_ -= node.state->bytes();
  used_.erase(node.used);
  node.state = nullptr;
  prune(&node);
}

// Nodes that lead to no state.
void PrefixTree::prune(Node* node) {
  while (node->parent && !node->state && node->children.empty()) {
    Node* const parent = node->parent;
    parent->children.erase(node->tokens[0]);
    node = parent;
  }
}

}  // namespace deltasane::serve
