#include "answers/algebra/judge.h"

#include <algorithm>
#include <cstdlib>
#include <new>

#include "answers/algebra.h"
#include "answers/words.h"

namespace deltasane::answers {

bool has_algebra() { return true; }

namespace {

// Frees the cache of MPFR for constants such as pi, which each thread has, when it goes. It goes with
// a comparison: a variable of the thread would end the process where its destructor could not be
// registered for want of memory.
struct ConstantCache {
  ~ConstantCache() { mpfr_free_cache(); }
};

// GMP and MPFR end the process where no memory is left; with these they throw, as `new` does. What
// they were computing is lost and leaks, and all that is said about it is that memory ran out.
void* allocate_or_throw(size_t size) {
  if (void* const memory = std::malloc(size)) return memory;
  throw std::bad_alloc();
}
void* reallocate_or_throw(void* old, size_t, size_t size) {
  if (void* const memory = std::realloc(old, size)) return memory;
  throw std::bad_alloc();
}
void deallocate(void* memory, size_t) { std::free(memory); }

bool throw_on_failed_allocation() {
  mp_set_memory_functions(allocate_or_throw, reallocate_or_throw, deallocate);
  return true;
}

}  // namespace

Verdict compare_trees(const Tree& gold, const Tree& prediction, const CheckOptions& options) {
  static const bool throws = throw_on_failed_allocation();
  static_cast<void>(throws);
  const ConstantCache cache;
  return Judge(options).same(gold, prediction, true) ? Verdict::same : Verdict::different;
}

namespace {

bool all_equations(const Node& chain) {
  return std::all_of(chain.parts.begin(), chain.parts.end(), [](const Tree& part) {
    return part->kind == Kind::relation && part->text == "=";
  });
}

// first = ... = last
Tree shortened(const Tree& assignment) {
  return make_relation("=", first_relation(*assignment).parts[0],
                       last_relation(*assignment).parts[1]);
}

bool is_undefined(const Node& node) {
  return node.kind == Kind::fraction && !is_number(node);  // a division by zero
}

Tree renamed(const Tree& tree, const std::map<std::string, std::string>& names) {
  if (tree->parts.empty() && tree->kind != Kind::symbol) return tree;
  Node node = *tree;
  node.size = node.depth = 1;
  if (node.kind == Kind::symbol) {
    const auto found = names.find(node.text);
    if (found != names.end()) node.text = found->second;
  }
  for (Tree& part : node.parts) part = renamed(part, names);
  return make(std::move(node));
}

// The prediction with the gold's variable names, if there are as many.
Tree with_names_of(const Tree& gold, const Tree& prediction) {
  const Symbols theirs = free_symbols(*prediction), ours = free_symbols(*gold);
  if (theirs.size() != ours.size()) return prediction;
  std::map<std::string, std::string> names;
  for (auto from = theirs.begin(), to = ours.begin(); from != theirs.end(); ++from, ++to)
    names[*from] = *to;
  return renamed(prediction, names);
}

}  // namespace

bool is_relation(const Node& node) {
  return node.kind == Kind::relation || node.kind == Kind::chain;
}

bool is_equation(const Node& node) {
  if (node.kind == Kind::relation) return node.text == "=";
  return node.kind == Kind::chain && all_equations(node);
}

const Node& last_relation(const Node& node) {
  return node.kind == Kind::chain ? *node.parts.back() : node;
}

const Node& first_relation(const Node& node) {
  return node.kind == Kind::chain ? *node.parts.front() : node;
}

bool is_assignment(const Node& node) {
  return is_equation(node) && only_symbols(*first_relation(node).parts[0]);
}

bool Judge::same(Tree gold, Tree prediction, bool outermost) {
  constexpr int deepest = 20;
  if (--budget_ < 0 || depth_ > deepest) return false;
  if (outermost) {
    gold = resolve_intervals(gold);
    prediction = resolve_intervals(prediction);
    if (!options_.strict) prediction = with_names_of(gold, prediction);
  }
  const bool gold_assigns = is_assignment(*gold), gold_equation = is_equation(*gold);
  const bool prediction_equation = is_equation(*prediction);
  if (gold_assigns) gold = shortened(gold);
  if (is_assignment(*prediction)) prediction = shortened(prediction);
  // The gold's form decides: a value may be given as an equation, an assignment as its value.
  if (prediction_equation && !gold_equation)
    prediction = last_relation(*prediction).parts[1];
  else if (gold_assigns && !prediction_equation)
    gold = last_relation(*gold).parts[1];

  if (is_relation(*gold) && is_set(*prediction)) {
    const auto solutions = solution_pieces(gold),
               pieces = real_pieces(*prediction, Assignments::as_values);
    if (solutions && pieces) return same_pieces(*solutions, *pieces);
  }
  if (outermost && options_.relation_for_set && is_relation(*prediction) && is_set(*gold)) {
    const auto solutions = solution_pieces(prediction), pieces = real_pieces(*gold);
    if (solutions && pieces) return same_pieces(*solutions, *pieces);
  }
  if (is_undefined(*gold)) return false;
  if (identical(*gold, *prediction)) return true;

  ++depth_;
  bool result;
  if (is_relation(*gold) && is_relation(*prediction))
    result = same_relation(gold, prediction);
  else if (is_set(*gold) || is_set(*prediction) || gold->kind == Kind::tuple ||
           prediction->kind == Kind::tuple)
    result = same_set(gold, prediction);
  else if (gold->kind == Kind::symbol || prediction->kind == Kind::symbol)
    result = compare_words(*gold, *prediction).value_or(false);
  else
    result = same_scalar(*gold, *prediction);
  --depth_;
  return result;
}

}  // namespace deltasane::answers
