#include "model/rwkv7/gpu/alphas.h"

#include <algorithm>
#include <limits>

namespace deltasane {

void GpuAlphas::begin(std::span<const SequenceInput* const> sequences) {
  const auto count_where = [&](const auto& holds) {
    return std::ranges::count_if(sequences, holds);
  };
  count_ = int64_t(sequences.size());
  const auto following = count_where([](const SequenceInput* one) { return one->adaptive != nullptr; });
  require(following == 0 || following == count_, "all sequences follow their heads, or none");
  follows_ = following > 0;
  has_own_ = count_where([](const SequenceInput* one) { return !one->state->alphas.empty(); }) > 0;
  has_references_ = has_looked_ = false;
  if (follows_) {
    const auto looked =
        count_where([](const SequenceInput* one) { return !one->adaptive->references.empty(); });
    require(looked == 0 || looked == count_, "all sequences were looked at, or none");
    has_references_ = looked > 0;
  }
  if (has_own_ || follows_) upload(sequences);
}

void GpuAlphas::begin(SequenceState& state) {
  SequenceInput alone;
  alone.state = &state;
  const SequenceInput* const one[] = {&alone};
  begin(one);
}

void GpuAlphas::upload(std::span<const SequenceInput* const> sequences) {
  const size_t heads = heads_of_all();
  std::vector<float> alphas;
  std::vector<double> references;
  for (const SequenceInput* one : sequences) {
    if (one->state->alphas.empty()) alphas.insert(alphas.end(), heads, float(alpha_));
    alphas.insert(alphas.end(), one->state->alphas.begin(), one->state->alphas.end());
    if (has_references_)
      references.insert(references.end(), one->adaptive->references.begin(),
                        one->adaptive->references.end());
  }
  const size_t all = heads * sequences.size();
  require(alphas.size() == all, "an alpha for each head");
  require(!has_references_ || references.size() == all, "a norm to compare with for each head");
  if (alphas_.elements() < int64_t(all)) {
    alphas_ = GpuTensor<float>(*gpu_, {int64_t(all)}, "alphas of heads");
    references_ = GpuTensor<double>(*gpu_, {int64_t(all)}, "norms of heads");
  }
  copy_to_gpu(alphas_.data(), alphas.data(), all * sizeof(float), *gpu_);
  if (has_references_)
    copy_to_gpu(references_.data(), references.data(), all * sizeof(double), *gpu_);
  gpu_->wait();
}

int64_t GpuAlphas::until_next_look(int64_t position) const {
  return follows_ ? AdaptiveSane::until_next(position) : std::numeric_limits<int64_t>::max();
}

std::optional<kernel::cuda::AdaptAlphas> GpuAlphas::look_after(int64_t position) {
  using kernel::cuda::AdaptAlphas;
  if (!follows_ || position % AdaptiveSane::every != 0) return std::nullopt;
  AdaptAlphas op{};
  op.measurement = has_references_ ? AdaptAlphas::Measurement::later : AdaptAlphas::Measurement::first;
  op.too_large = AdaptiveSane::too_large, op.small_again = AdaptiveSane::small_again;
  op.factor = AdaptiveSane::factor;
  op.lowest = std::min(AdaptiveSane::lowest_alpha, alpha_), op.highest = alpha_;
  op.sequences = count_, op.layers = layers_, op.heads = heads_;
  op.references = references_.data(), op.alphas = alphas_.data();
  has_references_ = has_own_ = has_looked_ = true;
  return op;
}

void GpuAlphas::end(std::span<const SequenceInput* const> sequences) {
  if (!has_looked_) return;
  const size_t heads = heads_of_all(), all = heads * sequences.size();
  std::vector<float> alphas(all);
  std::vector<double> references(all);
  copy_to_host(alphas.data(), alphas_.data(), all * sizeof(float), *gpu_);
  copy_to_host(references.data(), references_.data(), all * sizeof(double), *gpu_);
  gpu_->wait();
  for (size_t i = 0; i < sequences.size(); ++i) {
    const auto mine = [&](const auto& numbers) {
      return std::span(numbers).subspan(i * heads, heads);
    };
    const auto alphas_here = mine(alphas);
    const auto references_here = mine(references);
    sequences[i]->state->alphas.assign(alphas_here.begin(), alphas_here.end());
    sequences[i]->adaptive->references.assign(references_here.begin(), references_here.end());
  }
}

}  // namespace deltasane
