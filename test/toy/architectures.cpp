// The list of the test programs: the toy beside the architectures of the product.
#include "model/gated_delta/architecture.h"
#include "model/registry.h"
#include "model/rwkv7/architecture.h"
#include "toy/toy.h"

namespace deltasane {

std::span<const Architecture> architectures() {
  static const Architecture all[] = {rwkv7_architecture(), gated_delta_architecture(),
                                     toy::architecture()};
  return all;
}

}  // namespace deltasane
