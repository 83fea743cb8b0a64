// Compares a computed tensor with the truth, without hand-set tolerances.
//
// The truth is the reference evaluated in double. `plain` is the same reference in the precision
// under test: the rounding error that its arithmetic has anyway. With u = epsilon of float and the
// maximum taken over all elements:
//
//     max_error    max |found - truth| <= 2 max |plain - truth| + 4 u max |truth|
//     rms_error    rms (found - truth) <= 2 rms (plain - truth) + 4 u max |truth|   and
//                  max |found - truth| <= 4 max |plain - truth| + 4 u max |truth|
//
// max_error is for operators. rms_error is for whole models, which amplify rounding errors in some
// places (the norm of a head that has seen few tokens): two equally good results may differ there.
// An element that is not finite where the truth is fails.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace deltasane {

struct Closeness {
  bool close = false;
  double error = 0, allowed = 0;              // largest absolute error, and its bound
  size_t index = 0;                           // of the largest error
  double rms_error = 0, rms_plain_error = 0;  // root mean square errors
  std::string explanation() const;
};

enum class Criterion { max_error, rms_error };
Closeness closeness(std::span<const float> found, std::span<const float> plain,
                    std::span<const double> truth, Criterion criterion = Criterion::max_error);

}  // namespace deltasane
