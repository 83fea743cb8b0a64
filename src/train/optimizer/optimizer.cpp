#include "train/optimizer/optimizer.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "kernel/adamw/adamw.h"
#include "kernel/muon/muon.h"
#include "kernel/sums/sums.h"

namespace deltasane::train {
OptimizerKind optimizer_named(std::string_view name) {
  if (name == "adamw") return OptimizerKind::adamw;
  if (name == "muon") return OptimizerKind::muon;
  fail(Fault::usage, "optimizer.kind: expected adamw or muon, found '", name, "'");
}

std::string_view name_of(OptimizerKind kind) {
  return kind == OptimizerKind::adamw ? "adamw" : "muon";
}

ParameterRule rule_of(const ParameterSlot& slot, const OptimizerSettings& settings) {
  const bool matrix = slot.role == ParameterRole::matrix;
  const bool table = slot.role == ParameterRole::embedding || slot.role == ParameterRole::head;
  ParameterRule rule;
  if (settings.kind == OptimizerKind::muon) {
    rule.muon = matrix;
    if (rule.muon) rule.decay = settings.weight_decay;
    return rule;
  }
  if (matrix || table) rule.decay = settings.weight_decay;
  if (slot.role == ParameterRole::decay_bias) rule.rate_factor = 2;
  return rule;
}

Optimizer::Optimizer(const ParameterLayout& layout, const OptimizerSettings& settings)
    : first({layout.elements()}),
      second({layout.elements()}),
      layout_(layout),
      settings_(settings) {}

void Optimizer::step(std::span<float> parameters, std::span<const float> gradient, double rate,
                     const kernel::Cpu& cpu) {
  ++steps;
  for (const ParameterSlot& slot : layout_.slots()) {
    const ParameterRule rule = rule_of(slot, settings_);
    float* const w = parameters.data() + slot.offset;
    const float* const g = gradient.data() + slot.offset;
    float *const m = first.data() + slot.offset, *const v = second.data() + slot.offset;
    const int64_t of_matrix = slot.elements() / slot.matrices();
    for (int64_t at = 0; rule.muon && at < slot.elements(); at += of_matrix) {
      const int64_t in = slot.shape[slot.shape.rank() - 1];
      kernel::muon_step({{rate, settings_.momentum}, rule.decay, of_matrix / in, in, w + at, g + at,
                         m + at},
                        cpu);
    }
    if (!rule.muon)
      kernel::adamw_step({{rate, settings_.beta1, settings_.beta2, settings_.epsilon, steps},
                          rule.decay,
                          rule.rate_factor,
                          slot.elements(),
                          w,
                          g,
                          m,
                          v},
                         cpu);
  }
}

void fail_not_finite(const ParameterLayout& layout, std::span<const float> gradient,
                     const std::string& where) {
  for (const ParameterSlot& slot : layout.slots())
    for (int64_t i = 0; i < slot.elements(); ++i)
      if (!std::isfinite(gradient[size_t(slot.offset + i)]))
        fail(Fault::overflow, where, "gradient of ", slot.name, ": expected finite numbers, found ",
             gradient[size_t(slot.offset + i)], " at ", i);
  fail(Fault::overflow, where, "gradient: its norm overflows");
}

double clip_gradient(const ParameterLayout& layout, std::span<float> gradient, double limit,
                     const kernel::Cpu& cpu, const std::string& where) {
  const double norm = std::sqrt(kernel::sum_of_squares(gradient, cpu));
  if (!std::isfinite(norm)) fail_not_finite(layout, gradient, where);
  if (limit > 0 && norm > limit) {
    const float scale = float(limit / (norm + 1e-6));
    kernel::each_range(int64_t(gradient.size()), cpu, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) gradient[size_t(i)] *= scale;
    });
  }
  return norm;
}

double RateSchedule::at(int64_t step) const {
  if (step < warmup) return first + (peak - first) * double(step) / double(warmup);
  const int64_t span = std::max<int64_t>(1, steps - 1 - warmup);
  const double share = std::min(1.0, double(step - warmup) / double(span));
  return last + (peak - last) * (1 + std::cos(std::numbers::pi * share)) / 2;
}

}  // namespace deltasane::train
