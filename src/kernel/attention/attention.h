// Causal attention with grouped heads over the rows of a cache, on the CPU.
//
//     y(t, h) = sum over rows s of softmax(scale q(t, h) . k(s, g)) v(s, g)      g = floor(h / (H / G))
//
// Token t sees the rows s <= before + t, and with a window of n only the last n of them and the first
// few. The rows of the tokens themselves are in the cache already.
//
// q   (time, H, D)       k   (before + time, G, D)
// y   (time, H, E)       v   (before + time, G, E), may share memory with k
//
// Rows are taken 32 at a time from the first one on, whatever the call: a sequence cut into calls
// anywhere gives the same bits, and neither threads nor other queries change them.
// The gradient adds in an order that depends on the shape alone. reference.h is the definition.
#pragma once

#include "kernel/cpu_device.h"
#include "tensor/view.h"

namespace deltasane::kernel {

struct Attention {
  View<const float> q, k, v;
  float scale;
  int64_t window = 0;  // 0: all rows
  int64_t kept = 0;    // of the first rows, beside a window
  View<float> y;
};
void attention(const Attention& op, const Cpu& cpu);

// Shapes as above; dk and dv have a row for each of the cache and may share memory: they are added to.
struct AttentionGradient {
  View<const float> dy;
  View<float> dq;      // overwritten; may be the memory of q
  View<float> dk, dv;  // added to
};
// op.y is not used.
void attention_backward(const Attention& op, const AttentionGradient& gradient, const Cpu& cpu);

}  // namespace deltasane::kernel
