// Where the parameters of RWKV-7 lie in the row, found once by the tensor table.
#pragma once

#include <array>
#include <vector>

#include "model/train/training_pass.h"
#include "model/rwkv7/block.h"
#include "model/rwkv7/checkpoint/tensor_table.h"

namespace deltasane::rwkv7 {

struct NormSlots {
  Slot weight = nullptr, bias = nullptr;
};

struct LayerSlots {
  NormSlots ln1, ln2, ln_x;
  std::array<Slot, 6> mu;  // by Mix: r w k v a g
  Slot x_tau, w_tau;       // null without SANE
  Slot w0, a0, v0;         // v0: null in the first layer
  Slot k_k, k_a, r_k;
  std::array<Slot, 3> matrix;  // by Matrix: receptance key value
  Slot output;
  struct Pair {
    Slot down, up;
  };
  std::array<Pair, 4> low_rank;  // by LowRank: w a g v; v: null in the first layer
  Slot ffn_mu, ffn_key, ffn_value;

  const Pair& of(const LowRank& pair) const { return low_rank[size_t(pair.name)]; }
  Slot of(const Projection& one) const { return matrix[size_t(one.matrix)]; }
};

struct ModelSlots {
  ParameterLayout layout;
  Slot embedding, head;
  NormSlots ln0, ln_out;  // ln0: null where there is none
  std::vector<LayerSlots> layers;

  explicit ModelSlots(const Rwkv7Shape& shape);
  ModelSlots(const ModelSlots&) = delete;  // slots point into the layout
  ModelSlots& operator=(const ModelSlots&) = delete;
};

}  // namespace deltasane::rwkv7
