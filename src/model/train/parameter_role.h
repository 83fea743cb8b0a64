// What a parameter is to an optimiser. Recipes go by it and never by a name.
#pragma once

#include <cstdint>

namespace deltasane {

enum class ParameterRole : uint8_t {
  embedding,   // (vocabulary, channel): rows are looked up
  head,        // (vocabulary, channel): the last product
  matrix,      // of a block's own products
  low_rank,    // one of the two factors of a low-rank product
  vector,      // norms, biases, mixes: everything that scales or shifts channels
  decay_bias,  // a vector that says how fast a state forgets: learned at twice the rate by AdamW
  sane,        // SANE's own: the mix and the matrix that make tau
};

// Whether the parameter is a factor of a matrix product with the activations.
constexpr bool is_product(ParameterRole role) {
  return role == ParameterRole::head || role == ParameterRole::matrix ||
         role == ParameterRole::low_rank;
}

}  // namespace deltasane
