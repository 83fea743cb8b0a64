// The gradient of one layer of RWKV-7: the order of its operators, written once for every backend.
// Read block.h first; steps are named after the ones whose gradient they compute.
//
// dx, the gradient of the layer's result, becomes that of its input. Gradients of parameters are
// added to. v_first of the first layer has a gradient from every other layer.
#pragma once

#include "model/rwkv7/block.h"

namespace deltasane::rwkv7 {

template <class Ops>
void block_backward(Ops& ops) {
  const bool first_layer = ops.is_first_layer();

  ops.add_hidden_backward();                      // from dx to dhidden
  ops.hidden_backward(Activation::squared_relu);  // to the gradient of the mix
  ops.norm_shift_backward(Half::channel_mix);

  ops.add_output_backward();  // from dx to dy
  ops.time_mix_output_backward();
  ops.recurrence_backward();
  ops.time_mix_inputs_backward();
  if (first_layer) ops.take_v_first_gradient();
  ops.fork();
  ops.tau_backward();
  ops.project_backward(projections);
  if (!first_layer) ops.low_rank_backward(low_ranks[LowRank::v]);  // adds to the gradient of mix_v
  for (const LowRank& pair : low_ranks_of_first_layer) ops.low_rank_backward(pair);
  ops.join();
  ops.norm_shift_backward(Half::time_mix);  // also of tau's mix
}

}  // namespace deltasane::rwkv7
