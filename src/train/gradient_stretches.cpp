#include "train/gradient_stretches.h"

#include <charconv>

namespace deltasane::train {

GradientStretches::GradientStretches(const ParameterLayout& layout)
    : stages_(size_t(layout.shape().layers) + 1) {
  constexpr std::string_view block = "blocks.";
  const std::vector<ParameterSlot>& slots = layout.slots();
  for (size_t i = 0; i < slots.size(); ++i) {
    const std::string& name = slots[i].name;
    size_t stage = name == "emb.weight" ? 0 : stages_.size() - 1;
    if (name.starts_with(block))
      std::from_chars(name.data() + block.size(), name.data() + name.size(), stage);
    const int64_t end = i + 1 < slots.size() ? slots[i + 1].offset : layout.elements();
    std::vector<Stretch>& together = stages_.at(stage);
    if (!together.empty() && together.back().end == slots[i].offset)
      together.back().end = end;
    else
      together.push_back({slots[i].offset, end});
  }
}

void GradientStretches::tell(int64_t stage, float* gradient,
                             const FinishedStretch& finished) const {
  if (!finished) return;
  for (const Stretch& part : stages_[size_t(stage)])
    finished({gradient + part.begin, size_t(part.end - part.begin)});
}

}  // namespace deltasane::train
