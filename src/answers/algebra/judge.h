// The reference's rules for when two expressions are the same answer.
#pragma once

#include <optional>
#include <vector>

#include "answers/algebra/evaluate.h"
#include "answers/algebra/real.h"
#include "answers/tree.h"

namespace deltasane::answers {

// A part of the real line; a point when both ends are the same. Ends may be infinite.
struct Piece {
  Real low, high;
  bool low_open = false, high_open = false;
};
using Pieces = std::vector<Piece>;

class Judge {
 public:
  explicit Judge(const CheckOptions& options) : options_(options) {}

  bool same(Tree gold, Tree prediction, bool outermost = false);

 private:
  // scalars.cpp
  bool same_scalar(const Node& gold, const Node& prediction);
  bool same_number(const Node& gold, const Node& prediction);
  bool same_matrix(const Node& gold, const Node& prediction);

  // relations.cpp
  bool same_relation(const Tree& gold, const Tree& prediction);
  bool same_solutions(const Node& gold, const Node& prediction);

  // sets.cpp
  bool same_set(const Tree& gold, const Tree& prediction);
  bool same_elements(const Node& gold, const Node& prediction);

  const CheckOptions& options_;
  int depth_ = 0;
  int budget_ = 400;  // comparisons of two expressions within one check
  Work work_{30000};  // evaluation within one check
};

// At random points, to many digits.
bool equal_everywhere(const Node& a, const Node& b, Work& work);

// Intervals whose ends are in the wrong order are tuples, and other such special cases.
Tree resolve_intervals(const Tree& tree);
// Assignments in a set count as their values if asked for.
enum class Assignments { as_written, as_values };
std::optional<Pieces> real_pieces(const Node& set,
                                  Assignments assignments = Assignments::as_written);
std::optional<Pieces> solution_pieces(const Tree& relation);
bool same_pieces(const Pieces& a, const Pieces& b);
std::optional<Real> real_value(const Node& constant);  // may be infinite

// Equations: "x = 3" assigns, "a = b = c" is a chain of them.
bool is_relation(const Node& node);
bool is_equation(const Node& node);
bool is_assignment(const Node& node);
const Node& last_relation(const Node& node);
const Node& first_relation(const Node& node);

}  // namespace deltasane::answers
