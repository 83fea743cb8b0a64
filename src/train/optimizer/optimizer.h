// The optimiser: which rule updates which parameter, the loop over parameters, clipping, the rate
// schedule. The arithmetic of a step is in kernel/adamw and kernel/muon.
//
//   adamw   the models' own recipe: betas 0.9 and 0.99, eps 1e-18, decay for the matrices *.weight
//           (embedding, head, the four projections, both of the channel mix), twice the rate for
//           w0
//   muon    SANE's recipe: Muon with decay for the projections and the channel mix; AdamW with the
//           same rate and no decay for the embedding, the head and everything small. The paper
//           states neither beta2 nor epsilon of that AdamW: 0.999 and 1e-7 are the defaults of the
//           library it names (keras.optimizers.Muon)
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "kernel/cpu_device.h"
#include "model/train/parameters.h"

namespace deltasane::train {

enum class OptimizerKind { adamw, muon };
OptimizerKind optimizer_named(std::string_view name);  // anything else fails
std::string_view name_of(OptimizerKind kind);

inline constexpr double muon_beta2 = 0.999, muon_epsilon = 1e-7;

struct OptimizerSettings {
  OptimizerKind kind = OptimizerKind::adamw;
  double beta1 = 0.9, beta2 = 0.99, epsilon = 1e-18;
  double weight_decay = 0.1;
  double momentum = 0.95;  // muon
};

// How one tensor is updated.
struct ParameterRule {
  bool muon = false;
  double decay = 0, rate_factor = 1;
};
ParameterRule rule_of(const ParameterSlot& slot, const OptimizerSettings& settings);

class Optimizer {
 public:
  Optimizer(const ParameterLayout& layout, const OptimizerSettings& settings);

  void step(std::span<float> parameters, std::span<const float> gradient, double rate,
            const kernel::Cpu& cpu);

  // The state in a checkpoint, in the layout of the parameters: momentum, and for AdamW the running
  // mean of squares.
  int64_t steps = 0;
  Tensor<float> first, second;

 private:
  ParameterLayout layout_;
  OptimizerSettings settings_;
};

// Returns the norm of the whole gradient; above `limit` the gradient is clipped to it (0: never). A
// gradient that is not finite fails, and the first such tensor is named. `where` begins the
// message.
double clip_gradient(const ParameterLayout& layout, std::span<float> gradient, double limit,
                     const kernel::Cpu& cpu, const std::string& where = {});

// The failure of a gradient whose norm is not finite.
[[noreturn]] void fail_not_finite(const ParameterLayout& layout, std::span<const float> gradient,
                                  const std::string& where);

// Linear from `first` to `peak` over `warmup` steps, then half a cosine to `last` at the last step.
struct RateSchedule {
  double peak = 6e-4, first = 6e-6, last = 6e-5;
  int64_t warmup = 10, steps = 100;
  double at(int64_t step) const;  // step counts from 0
};

}  // namespace deltasane::train
