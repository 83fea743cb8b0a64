// A mixture of experts on the CPU: which experts a token uses, and their products.
//
//     softmax   s = softmax(logits)              chosen: the `used` largest s
//     sigmoid   s = sigmoid(logits)              chosen: the `used` largest s + bias
//     weight_e = s_e, divided by the sum of the chosen ones where `renormalize`, times scale
//
//     y += sum over chosen e of weight_e down_e( silu(gate_e x) * up_e x )
//
// Of equal scores the expert of the lower number is chosen. reference.h is the definition.
#pragma once

#include <cstdint>
#include <span>

#include "kernel/cpu_device.h"
#include "kernel/matmul/matmul.h"

namespace deltasane::kernel {

enum class RouterScore { softmax, sigmoid };

struct Router {
  RouterScore score = RouterScore::softmax;
  int64_t used = 1;
  bool renormalize = true;
  float scale = 1;
  const float* bias = nullptr;  // (experts); null: 0
};

struct Choice {
  int32_t expert = 0;
  float weight = 0;
};

// logits: (rows, experts); chosen: (rows, used), the best first.
void route(const Router& router, View<const float> logits, std::span<Choice> chosen,
           const Cpu& cpu);

struct Experts {
  View<const float> x;                        // (rows, C)
  std::span<const Choice> chosen;             // (rows, used)
  std::span<const Weights> gate, up, down;    // of each expert: (I, C), (I, C), (C, I)
  View<float> y;                              // (rows, C), added to
};
void add_experts(const Experts& op, const Cpu& cpu);

// From the gradient of the weights of the chosen experts to that of the logits, which is overwritten.
// The choice itself, and so the bias, has none.
struct RouterGradient {
  View<const float> logits;        // (rows, experts)
  std::span<const Choice> chosen;  // (rows, used), as route chose
  std::span<const float> dweight;  // (rows, used)
  View<float> dlogits;
};
void route_backward(const Router& router, const RouterGradient& op, const Cpu& cpu);

// Products are added up over the rows in their order.
struct ExpertsGradient {
  View<const float> dy;           // (rows, C)
  View<float> dx;                 // (rows, C), added to
  std::span<float> dweight;       // (rows, used), of the choices; overwritten
  View<float> dgate, dup, ddown;  // (experts, I, C), (experts, I, C), (experts, C, I), added to
};
// op.y is not used. Weights of f32 only.
void add_experts_backward(const Experts& op, const ExpertsGradient& gradient, const Cpu& cpu);

}  // namespace deltasane::kernel
