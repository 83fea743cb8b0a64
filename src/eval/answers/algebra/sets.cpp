#include <algorithm>

#include "eval/answers/algebra/judge.h"

namespace deltasane::answers {

namespace {

bool is_list(const Node& node) { return node.kind == Kind::finite_set || node.kind == Kind::tuple; }

Tree as_set(const Tree& tree) {
  return is_set(*tree) || tree->kind == Kind::tuple ? tree : make_set({tree});
}

// Same elements whatever the order, each written the same way.
bool identical_unordered(const Node& a, const Node& b) {
  if (a.kind != b.kind || a.parts.size() != b.parts.size() || a.text != b.text) return false;
  std::vector<bool> used(b.parts.size(), false);
  for (const Tree& part : a.parts) {
    size_t i = 0;
    while (i < b.parts.size() && (used[i] || !identical(*part, *b.parts[i]))) ++i;
    if (i == b.parts.size()) return false;
    used[i] = true;
  }
  return true;
}

// The elements in the order of their values; nothing if some have no real value.
std::optional<std::vector<Tree>> sorted(const std::vector<Tree>& elements) {
  std::vector<std::pair<Real, Tree>> keyed;
  for (const Tree& element : elements) {
    const Node& value = is_assignment(*element) ? *last_relation(*element).parts[1] : *element;
    auto key = real_value(value);
    if (!key) return {};
    keyed.emplace_back(std::move(*key), element);
  }
  std::stable_sort(keyed.begin(), keyed.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<Tree> result;
  for (auto& [key, element] : keyed) result.push_back(element);
  return result;
}

}  // namespace

bool Judge::same_elements(const Node& gold, const Node& prediction) {
  const size_t count = gold.parts.size();
  if (count != prediction.parts.size()) return false;
  const auto pairwise = [&](const std::vector<Tree>& a, const std::vector<Tree>& b) {
    for (size_t i = 0; i < count; ++i)
      if (!same(a[i], b[i])) return false;
    return true;
  };
  if (gold.kind == Kind::tuple) return pairwise(gold.parts, prediction.parts);
  const auto ours = sorted(gold.parts), theirs = sorted(prediction.parts);
  if (ours && theirs) return pairwise(*ours, *theirs);
  std::vector<bool> used(count, false);
  for (const Tree& element : gold.parts) {
    size_t i = 0;
    while (i < count && (used[i] || !same(element, prediction.parts[i]))) ++i;
    if (i == count) return false;
    used[i] = true;
  }
  return true;
}

bool Judge::same_set(const Tree& gold, const Tree& prediction) {
  const Tree a = as_set(gold), b = as_set(prediction);
  if (a->kind == Kind::interval && b->kind == Kind::interval)
    return a->left_open == b->left_open && a->right_open == b->right_open &&
           same(a->parts[0], b->parts[0]) && same(a->parts[1], b->parts[1]);
  if (a->kind == Kind::tuple && b->kind == Kind::tuple) return same_elements(*a, *b);
  if (identical_unordered(*a, *b)) return true;
  if (is_set(*a) && is_set(*b)) {
    const auto ours = real_pieces(*a), theirs = real_pieces(*b);
    if (ours && theirs && same_pieces(*ours, *theirs)) return true;
  }
  if (is_list(*a) && is_list(*b)) return same_elements(*a, *b);
  // "(1, 2)" reads as an open interval, but may have been meant as a pair.
  const auto as_pair = [](const Node& interval) { return make(Kind::tuple, interval.parts); };
  const auto is_open = [](const Node& node) {
    return node.kind == Kind::interval && node.left_open && node.right_open;
  };
  if (is_open(*a) && is_list(*b) && b->parts.size() == 2) return same_elements(*as_pair(*a), *b);
  if (is_open(*b) && is_list(*a) && a->parts.size() == 2) return same_elements(*a, *as_pair(*b));
  return false;
}

}  // namespace deltasane::answers
