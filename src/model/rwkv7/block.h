// One layer of RWKV-7: the order of its operators, written once for every backend, for inference
// and for training. What is architectural stands here: which mix feeds which matrix, which
// activation follows, what the first layer lacks, where SANE's tau enters.
//
//     u = ln1(x)                      mix_i = u + (u of the token before - u) x_i for r w k v a g
//     r = mix_r R'    k = mix_k K'    v = mix_v V'
//     w = tanh(mix_w w1) w2           a = mix_a a1 a2           g = sigmoid(mix_g g1) g2
//     gate = mix_v v1 v2              not in the first layer, whose v is v_first for the others
//     tau = alpha softplus(mix_tau w_tau) + 1                   of the tokens that end a chunk
//     w, a, b, k, v = time_mix_inputs          y = delta_rule, time_mix_output      head by head
//     x = x + y O'
//     u = ln2(x)                      mix = u + (u of the token before - u) x_k
//     x = x + relu(mix K')^2 V'
//
// A backend (`Ops`) has the steps below, over its own buffers. It may fuse neighbouring steps, do
// independent ones at once, or leave a step out that its fusion has done; it has no order of its
// own. The operators are defined in src/kernel; reference.h is the definition of the whole.
//
// The one exception are the kernels for single tokens on a GPU (gpu/decode.h), which fuse whole
// layers. They are tested against the same definition.
#pragma once

#include <optional>
#include <span>

#include "kernel/activation/activation.h"

namespace deltasane::rwkv7 {

enum class Half { time_mix, channel_mix };
enum class Mix { r, w, k, v, a, g };
enum class Matrix { receptance, key, value };
using kernel::Activation;

// A product of a mix: y = mix W'.
struct Projection {
  Mix mix;
  Matrix matrix;
};
inline constexpr Projection projections[] = {
    {Mix::r, Matrix::receptance}, {Mix::k, Matrix::key}, {Mix::v, Matrix::value}};

// A product with a matrix of low rank: y = between(mix down) up.
struct LowRank {
  enum Name { w, a, g, v } name;
  Mix mix;
  std::optional<Activation> between;
};
inline constexpr LowRank low_ranks[] = {{LowRank::w, Mix::w, Activation::tanh},
                                        {LowRank::a, Mix::a, std::nullopt},
                                        {LowRank::g, Mix::g, Activation::sigmoid},
                                        {LowRank::v, Mix::v, std::nullopt}};
inline constexpr std::span<const LowRank> low_ranks_of_first_layer{low_ranks, 3};  // all but v

constexpr std::span<const LowRank> low_ranks_of(bool first_layer) {
  return first_layer ? low_ranks_of_first_layer : low_ranks;
}

template <class Ops>
void block_forward(Ops& ops) {
  const bool first_layer = ops.is_first_layer();

  ops.norm_shift(Half::time_mix);  // also tau's mix
  ops.fork();                      // up to join(), steps read mixes and nothing of each other
  ops.project(projections);
  ops.low_rank(low_ranks_of(first_layer));
  ops.tau();
  ops.join();
  ops.heads([&](auto& part) {  // all of them, or some: no head needs another
    if (first_layer) part.store_v_first();
    part.time_mix_inputs();
    part.recurrence();
    part.time_mix_output();
  });
  ops.add_output();                 // x += y O'
  ops.store_shift(Half::time_mix);  // the last token's u, for the next call

  ops.norm_shift(Half::channel_mix);
  ops.hidden(Activation::squared_relu);  // relu(mix K')^2
  ops.store_shift(Half::channel_mix);
  ops.add_hidden();  // x += hidden V'
}

}  // namespace deltasane::rwkv7
