// How a computed tensor is judged against the truth.
//
// The truth is the definition evaluated in double. `plain` is the same definition in the precision
// under test: what its arithmetic costs with no tricks. A result may be off by twice that, plus
// four units in the last place of the largest value; measured as the largest absolute error. So
// there is no tolerance to set by hand. Anything that is not finite where the truth is, fails.
#pragma once

#include <span>
#include <string>

namespace deltasane {

struct Closeness {
  bool close = false;
  double error = 0, allowed = 0;  // largest absolute error; what was allowed
  std::string explanation() const;
};

Closeness closeness(std::span<const float> found, std::span<const float> plain,
                    std::span<const double> truth);

}  // namespace deltasane
