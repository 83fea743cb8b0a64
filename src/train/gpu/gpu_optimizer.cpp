#include "train/gpu/gpu_optimizer.h"

#include <vector>

namespace deltasane::train {
namespace gpu {
namespace {

std::vector<kernel::cuda::AdamwSlot> adamw_slots(const ParameterLayout& layout,
                                                 const OptimizerSettings& settings) {
  std::vector<kernel::cuda::AdamwSlot> slots;
  for (const ParameterSlot& slot : layout.slots())
    if (const ParameterRule rule = rule_of(slot, settings); !rule.muon)
      slots.push_back({slot.offset, slot.elements(), rule.decay, rule.rate_factor});
  return slots;
}

std::vector<kernel::cuda::MuonSlot> muon_slots(const ParameterLayout& layout,
                                               const OptimizerSettings& settings) {
  std::vector<kernel::cuda::MuonSlot> slots;
  for (const ParameterSlot& slot : layout.slots())
    if (const ParameterRule rule = rule_of(slot, settings); rule.muon) {
      const int64_t of_matrix = slot.elements() / slot.matrices();
      const int64_t in = slot.shape[slot.shape.rank() - 1];
      for (int64_t at = 0; at < slot.elements(); at += of_matrix)
        slots.push_back({slot.offset + at, of_matrix / in, in, rule.decay});
    }
  return slots;
}

}  // namespace
}  // namespace gpu

GpuOptimizer::GpuOptimizer(const ParameterLayout& layout, const OptimizerSettings& settings,
                           const Gpu& device)
    : settings_(settings),
      gpu_(device),
      products_(device, kernel::cuda::Products::autotune),
      clip_(device, layout.elements()),
      adamw_(device, gpu::adamw_slots(layout, settings)),
      muon_(device, gpu::muon_slots(layout, settings)) {}

void GpuOptimizer::step(const GpuOptimizerBuffers& b, double rate, int64_t steps) {
  const kernel::cuda::GradientNorm* const norm = clip_.on_gpu();
  adamw_.step({rate, settings_.beta1, settings_.beta2, settings_.epsilon, steps}, norm,
              {b.parameters, b.rounded, b.gradient, b.first, b.second}, gpu_);
  muon_.step({rate, settings_.momentum}, norm, {b.parameters, b.rounded, b.gradient, b.first},
             products_, gpu_);
}

}  // namespace deltasane::train
