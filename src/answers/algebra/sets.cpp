#include <algorithm>

#include "answers/algebra/judge.h"

namespace deltasane::answers {

namespace {

bool is_list(const Node& node) { return node.kind == Kind::finite_set || node.kind == Kind::tuple; }

Tree as_set(const Tree& tree) {
  return is_set(*tree) || tree->kind == Kind::tuple ? tree : make_set({tree});
}

// The elements that have a real value in the order of these values, then the others.
struct Sorted {
  std::vector<Tree> elements;
  size_t with_value = 0;
};

Sorted sorted(const std::vector<Tree>& elements) {
  std::vector<std::pair<Real, Tree>> keyed;
  std::vector<Tree> others;
  for (const Tree& element : elements) {
    const Node& value = is_assignment(*element) ? *last_relation(*element).parts[1] : *element;
    auto key = real_value(value);
    if (key)
      keyed.emplace_back(std::move(*key), element);
    else
      others.push_back(element);
  }
  std::stable_sort(keyed.begin(), keyed.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  Sorted result;
  for (auto& [key, element] : keyed) result.elements.push_back(element);
  result.with_value = keyed.size();
  result.elements.insert(result.elements.end(), others.begin(), others.end());
  return result;
}

}  // namespace

bool Judge::same_elements(const Node& gold, const Node& prediction) {
  const size_t count = gold.parts.size();
  if (count != prediction.parts.size()) return false;
  if (gold.kind == Kind::tuple) {
    for (size_t i = 0; i < count; ++i)
      if (!same(gold.parts[i], prediction.parts[i])) return false;
    return true;
  }
  const Sorted ours = sorted(gold.parts), theirs = sorted(prediction.parts);
  const size_t paired = std::max(ours.with_value, theirs.with_value);
  for (size_t i = 0; i < paired; ++i)
    if (!same(ours.elements[i], theirs.elements[i])) return false;
  std::vector<bool> used(count, false);
  for (size_t i = paired; i < count; ++i) {
    size_t other = paired;
    while (other < count && (used[other] || !same(ours.elements[i], theirs.elements[other])))
      ++other;
    if (other == count) return false;
    used[other] = true;
  }
  return true;
}

bool Judge::same_set(const Tree& gold, const Tree& prediction) {
  const Tree a = as_set(gold), b = as_set(prediction);
  if (a->kind == Kind::interval && b->kind == Kind::interval)
    return a->left_open == b->left_open && a->right_open == b->right_open &&
           same(a->parts[0], b->parts[0]) && same(a->parts[1], b->parts[1]);
  if (a->kind == Kind::tuple && b->kind == Kind::tuple) return same_elements(*a, *b);
  if (identical(*a, *b)) return true;
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
