#include "model/adaptive_sane.h"

#include <algorithm>
#include <cmath>

#include "base/cat.h"

namespace deltasane {
namespace {

std::vector<double> norms_of(const SequenceState& state) {
  if (auto found = state.head_norms_on_device()) return *std::move(found);
  std::vector<double> norms;
  for (const StateHead& head : state.layout().heads()) {
    double squares = 0;
    for (const float entry : state.of(head)) squares += double(entry) * double(entry);
    norms.push_back(std::sqrt(squares));
  }
  return norms;
}

}  // namespace

void AdaptiveSane::follow(SequenceState& state, double alpha) {
  if (state.position % every != 0) return;
  const std::vector<double> norms = norms_of(state);
  if (references.empty()) {
    references = norms;
    state.alphas.assign(norms.size(), float(alpha));
    return;
  }
  for (size_t head = 0; head < norms.size(); ++head) {
    float& now = state.alphas[head];
    if (norms[head] > too_large * references[head])
      now = float(std::max(std::min(lowest_alpha, alpha), double(now) * factor));
    else if (norms[head] < small_again * references[head])
      now = float(std::min(alpha, double(now) / factor));
  }
}

std::string AdaptiveSane::description() {
  return cat("every ", every, " tokens: alpha times ", factor, " above ", too_large,
             " of the first norm, divided by it below ", small_again, ", not under ", lowest_alpha);
}

}  // namespace deltasane
