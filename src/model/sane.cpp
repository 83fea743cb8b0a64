#include "model/sane.h"

#include "base/cat.h"

namespace deltasane {

std::string_view name_of(SaneKind kind) {
  return kind == SaneKind::none ? "none" : kind == SaneKind::trained ? "trained" : "run-time";
}

std::string to_string(const SaneUse& sane) {
  if (sane.kind == SaneKind::none) return "no SANE";
  return cat(name_of(sane.kind), " SANE with alpha ", sane.alpha, ", chunk ", sane.chunk);
}

}  // namespace deltasane
