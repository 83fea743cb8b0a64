// The one place that knows all architectures.
#include "model/gated_delta/architecture.h"
#include "model/registry.h"
#include "model/rwkv7/architecture.h"

namespace deltasane {

std::span<const Architecture> architectures() {
  static const Architecture all[] = {rwkv7_architecture(), gated_delta_architecture()};
  return all;
}

}  // namespace deltasane
