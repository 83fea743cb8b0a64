#include "model/gated_delta/architecture.h"

#include <algorithm>

#include "model/gated_delta/checkpoint/checkpoint.h"
#include "model/gated_delta/gpu/model.h"
#include "model/gated_delta/model.h"
#include "model/gated_delta/random.h"
#include "model/gated_delta/trainable.h"
#include "tensor/cuda/gpu.h"

namespace deltasane {
namespace gated_delta {
namespace {

std::unique_ptr<LanguageModel> open(std::unique_ptr<ModelCheckpoint> checkpoint,
                                    const OpenOptions& options) {
  auto* const own = dynamic_cast<Checkpoint*>(checkpoint.get());
  require(own != nullptr, "an architecture opens its own checkpoints");
  if (!options.device.gpu) return std::make_unique<Model>(std::move(*own), options);
  if constexpr (built_with_cuda)
    return open_on_gpu(std::move(*own), options);
  else
    fail(Fault::usage, "this build has no CUDA backend; build with make cuda");
}

std::vector<StateHead> write_released(const RandomModel& model, const fs::path& path,
                                      const MatrixTypes& types) {
  const Config config = released_config(model.size);
  if (model.slow_heads != 0)
    fail(Fault::usage, "slow heads: expected 0 for this architecture, whose states do not grow ",
         "exponentially, found ", model.slow_heads);
  write_random(config, model.seed, path, types);
  return {};
}

// Multiplications and additions of one token, but for those with a growing cache.
double layer_flops(const Config& c, int64_t layer) {
  const auto channels = double(c.channels);
  double matrices = 0;
  const auto matrix = [&](int64_t out, int64_t in) { matrices += double(out) * double(in); };
  switch (c.mixers[size_t(layer)]) {
    case Mixer::recurrent:
      matrix(c.mixed_channels() + 2 * c.value_channels() + 2 * c.value_heads, c.channels);
      matrices += 4 * double(c.value_channels() * c.key_size);
      break;
    case Mixer::attention:
      matrix((2 + c.attention_gate) * c.heads * c.head_size + 2 * c.kv_heads * c.head_size,
             c.channels);
      break;
    case Mixer::latent:
      matrix(c.heads * (c.latent_key_size + c.shared_key_size + c.latent_value_size) +
                 c.latent_size + c.shared_key_size,
             c.channels);
      matrix(c.heads * (c.latent_key_size + c.latent_value_size), c.latent_size);
      break;
  }
  const int64_t width = c.experts[size_t(layer)]
                            ? c.experts_used * c.expert_size + c.shared_expert_size
                            : c.feed_forward;
  return 2 * (matrices + 3 * channels * double(width));
}

}  // namespace

ModelDescription Checkpoint::describe() const {
  const Config& c = config_;
  ModelDescription found;
  found.architecture = "gated_delta", found.title = title_of(c);
  found.layers = c.layers(), found.channels = c.channels, found.vocabulary = c.vocabulary;
  for (int64_t layer = 0; layer < c.layers(); ++layer) found.layer_flops += layer_flops(c, layer);
  found.head_flops = 2.0 * double(c.channels) * double(c.vocabulary);
  const auto recurrent = std::ranges::count(c.mixers, Mixer::recurrent);
  const auto others = c.layers() - recurrent;
  if (recurrent)
    found.sizes.push_back({"recurrent",
                           "recurrence",
                           cat(kernel::name_of(c.rule), ", ", recurrent, " layers, ", c.value_heads,
                               " heads of ", c.value_size, "x", c.key_size, ", ", c.key_heads,
                               " key heads"),
                           {{"layers", recurrent},
                            {"heads", c.value_heads},
                            {"key_heads", c.key_heads},
                            {"values", c.value_size},
                            {"keys", c.key_size}}});
  if (c.has(Mixer::attention))
    found.sizes.push_back({"attention",
                           "attention",
                           cat(others, " layers, ", c.heads, " heads of ", c.head_size, ", ",
                               c.kv_heads, " for keys and values"),
                           {{"layers", others},
                            {"heads", c.heads},
                            {"kv_heads", c.kv_heads},
                            {"head_size", c.head_size}}});
  if (c.has(Mixer::latent))
    found.sizes.push_back({"latent_attention",
                           "attention",
                           cat("latent, ", others, " layers, ", c.heads, " heads, ", c.latent_size,
                               " + ", c.shared_key_size, " cached"),
                           {{"layers", others},
                            {"heads", c.heads},
                            {"latent", c.latent_size},
                            {"shared_key", c.shared_key_size}}});
  if (std::ranges::count(c.experts, false))
    found.sizes.push_back({"feed_forward", "feed-forward", cat(c.feed_forward), {{"", c.feed_forward}}});
  if (std::ranges::count(c.experts, true))
    found.sizes.push_back({"experts",
                           "experts",
                           cat(c.expert_count, " of ", c.expert_size, ", ", c.experts_used, " used"),
                           {{"count", c.expert_count},
                            {"used", c.experts_used},
                            {"size", c.expert_size},
                            {"shared_size", c.shared_expert_size}}});
  return found;
}

}  // namespace gated_delta

Architecture gated_delta_architecture() {
  return {.name = "gated_delta",
          .title = "Delta-rule family",
          .recognizes = gated_delta::is_ours,
          .open_checkpoint = [](TensorFile file) -> std::unique_ptr<ModelCheckpoint> {
            return std::make_unique<gated_delta::Checkpoint>(std::move(file));
          },
          .open = gated_delta::open,
          .read_tuned_state = nullptr,
          .training = &gated_delta::trainable,
          .write_random = gated_delta::write_released};
}

}  // namespace deltasane
