#include "train/optimizer.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "train/muon.h"
#include "train/sums.h"

namespace deltasane::train {
namespace {

struct AdamFactors {
  float kept, beta1, rest1, beta2, rest2, rate, of_square, eps;
};

// By value and without aliases, so that the compiler sees a loop over vectors.
void adamw_piece(float* __restrict w, const float* __restrict g, float* __restrict m,
                 float* __restrict v, int64_t count, const AdamFactors f) {
  for (int64_t i = 0; i < count; ++i) {
    m[i] = f.beta1 * m[i] + f.rest1 * g[i];
    v[i] = f.beta2 * v[i] + f.rest2 * g[i] * g[i];
    w[i] = f.kept * w[i] - f.rate * m[i] / (std::sqrt(v[i]) * f.of_square + f.eps);
  }
}

}  // namespace

OptimizerKind optimizer_named(std::string_view name) {
  if (name == "adamw") return OptimizerKind::adamw;
  if (name == "muon") return OptimizerKind::muon;
  fail(Fault::usage, "optimizer.kind: expected adamw or muon, found '", name, "'");
}

std::string_view name_of(OptimizerKind kind) {
  return kind == OptimizerKind::adamw ? "adamw" : "muon";
}

ParameterRule rule_of(const ParameterSlot& slot, const OptimizerSettings& settings) {
  const bool matrix = slot.shape.rank() == 2 && slot.name.ends_with(".weight");
  const bool in_block = slot.name.starts_with("blocks.");
  ParameterRule rule;
  if (settings.kind == OptimizerKind::muon) {
    rule.muon = matrix && in_block;
    if (rule.muon) rule.decay = settings.weight_decay;
    return rule;
  }
  if (matrix) rule.decay = settings.weight_decay;
  if (slot.name.ends_with("att.w0")) rule.rate_factor = 2;
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
    if (rule.muon)
      muon(slot, rule, parameters, gradient, rate, cpu);
    else
      adamw(slot, rule, parameters, gradient, rate, cpu);
  }
}

void Optimizer::adamw(const ParameterSlot& slot, const ParameterRule& rule,
                      std::span<float> parameters, std::span<const float> gradient, double rate,
                      const kernel::Cpu& cpu) {
  const double whole_rate = rate * rule.rate_factor;
  const AdamFactors factors{float(1 - whole_rate * rule.decay),
                            float(settings_.beta1),
                            float(1 - settings_.beta1),
                            float(settings_.beta2),
                            float(1 - settings_.beta2),
                            float(whole_rate / (1 - std::pow(settings_.beta1, double(steps)))),
                            float(1 / std::sqrt(1 - std::pow(settings_.beta2, double(steps)))),
                            float(settings_.epsilon)};
  each_piece(slot.elements(), cpu, [&](int64_t begin, int64_t end) {
    const int64_t at = slot.offset + begin;
    adamw_piece(parameters.data() + at, gradient.data() + at, first.data() + at, second.data() + at,
                end - begin, factors);
  });
}

void Optimizer::muon(const ParameterSlot& slot, const ParameterRule& rule,
                     std::span<float> parameters, std::span<const float> gradient, double rate,
                     const kernel::Cpu& cpu) {
  const float mu = float(settings_.momentum), kept = float(1 - rate * rule.decay);
  const double largest = double(std::max(slot.shape[0], slot.shape[1]));
  const float change = float(rate * 0.2 * std::sqrt(largest));
  float* const w = parameters.data() + slot.offset;
  const float* const g = gradient.data() + slot.offset;
  float* const m = first.data() + slot.offset;
  Tensor<float> u(slot.shape);
  each_piece(slot.elements(), cpu, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      m[i] = mu * m[i] + g[i];
      u[i] = g[i] + mu * m[i];
    }
  });
  newton_schulz(u.view(), cpu);
  each_piece(slot.elements(), cpu, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) w[i] = kept * w[i] - change * u[i];
  });
}

void fail_not_finite(const ParameterLayout& layout, std::span<const float> gradient,
                     const std::string& where) {
  for (const ParameterSlot& slot : layout.slots())
    for (int64_t i = 0; i < slot.elements(); ++i)
      if (!std::isfinite(gradient[size_t(slot.offset + i)]))
        fail(Fault::overflow, where, "gradient of ", slot.name, ": expected finite numbers, found ",
             gradient[size_t(slot.offset + i)], " at ", i);
  fail(Fault::overflow, where, "gradient: its length overflows");
}

double clip_gradient(const ParameterLayout& layout, std::span<float> gradient, double limit,
                     const kernel::Cpu& cpu, const std::string& where) {
  const double length = std::sqrt(sum_of_squares(gradient, cpu));
  if (!std::isfinite(length)) fail_not_finite(layout, gradient, where);
  if (limit > 0 && length > limit) {
    const float factor = float(limit / (length + 1e-6));
    each_piece(int64_t(gradient.size()), cpu, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) gradient[size_t(i)] *= factor;
    });
  }
  return length;
}

double RateSchedule::at(int64_t step) const {
  if (step < warmup) return first + (peak - first) * double(step) / double(warmup);
  const int64_t span = std::max<int64_t>(1, steps - 1 - warmup);
  const double share = std::min(1.0, double(step - warmup) / double(span));
  return last + (peak - last) * (1 + std::cos(std::numbers::pi * share)) / 2;
}

}  // namespace deltasane::train
