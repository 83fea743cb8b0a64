#include "model/rwkv7/architecture.h"

#include "model/rwkv7/checkpoint/unsupported.h"
#include "model/rwkv7/checkpoint/write.h"
#include "model/rwkv7/publish/publish.h"
#include "model/rwkv7/model.h"
#include "model/rwkv7/random.h"
#include "model/rwkv7/slow_heads.h"
#include "model/rwkv7/trainable.h"
#include "model/rwkv7/tuned_state/tuned_state.h"

namespace deltasane {
namespace {

constexpr std::string_view own_name = "rwkv7", own_title = "RWKV-7";

std::unique_ptr<LanguageModel> open(std::unique_ptr<ModelCheckpoint> checkpoint,
                                    const OpenOptions& options) {
  auto* const own = dynamic_cast<Rwkv7Checkpoint*>(checkpoint.get());
  require(own != nullptr, "an architecture opens its own checkpoints");
  return std::make_unique<Rwkv7>(std::move(*own), options);
}

std::vector<StateHead> write_random(const RandomModel& model, const fs::path& path,
                                    const MatrixTypes& types) {
  const Rwkv7Shape shape = released_shape(model.size);
  const RandomRwkv7 random(shape, model.seed);
  const SlowHeadsRwkv7 source(random, shape, {.count = model.slow_heads});
  const std::string extension = path.extension().string();
  if (extension == ".gguf")
    write_rwkv7_gguf(path, source, {types});
  else if (extension == ".safetensors")
    write_rwkv7_safetensors(path, source, types.most, {});
  else
    fail(Fault::usage, path, ": expected a name that ends in .safetensors or .gguf");
  std::vector<StateHead> planted;
  for (int64_t layer = 0; layer < shape.layers; ++layer)
    for (const int64_t head : source.heads_of(layer)) planted.push_back({layer, head});
  return planted;
}

}  // namespace

Architecture rwkv7_architecture() {
  return {.name = own_name,
          .title = own_title,
          .recognizes = is_rwkv7,
          .open_checkpoint =
              [](TensorFile file) -> std::unique_ptr<ModelCheckpoint> {
            return std::make_unique<Rwkv7Checkpoint>(std::move(file));
          },
          .open = open,
          .read_tuned_state = read_tuned_state,
          .training = &rwkv7::trainable,
          .write_random = write_random};
}

ModelDescription Rwkv7Checkpoint::describe() const {
  const Rwkv7Shape s = validate();
  ModelDescription found;
  found.architecture = own_name, found.title = own_title;
  found.layers = s.layers, found.channels = s.channels, found.vocabulary = s.vocabulary;
  const double ranks = double(s.rank_w + s.rank_a + s.rank_v + s.rank_g);
  found.layer_flops =
      double(s.layers) *
      (8.0 * double(s.channels * s.channels) + 4.0 * double(s.channels * s.feed_forward) +
       4.0 * double(s.channels) * ranks + 9.0 * double(s.channels * s.head_size));
  found.head_flops = 2.0 * double(s.channels * s.vocabulary);
  found.sizes = {
      {"heads", "heads", cat(s.heads, " of ", s.head_size), {{"", s.heads}}},
      {"head_size", "", "", {{"", s.head_size}}},
      {"feed_forward", "feed-forward", cat(s.feed_forward), {{"", s.feed_forward}}},
      {"ranks",
       "ranks",
       cat("w ", s.rank_w, ", a ", s.rank_a, ", v ", s.rank_v, ", g ", s.rank_g),
       {{"w", s.rank_w}, {"a", s.rank_a}, {"v", s.rank_v}, {"g", s.rank_g}}}};
  return found;
}

StateLayout Rwkv7Checkpoint::state_layout() const {
  const Rwkv7Shape s = validate();
  return shifts_and_square_heads(s.layers, s.channels, s.heads, s.head_size);
}

void Rwkv7Checkpoint::write_safetensors(const fs::path& path, StoredType type,
                                        const Metadata& metadata) const {
  write_rwkv7_safetensors(path, *this, type, metadata);
}

void Rwkv7Checkpoint::write_gguf(const fs::path& path, const GgufRequest& request) const {
  write_rwkv7_gguf(path, *this, request);
}

void Rwkv7Checkpoint::write_pth(const fs::path& path, StoredType type) const {
  write_rwkv7_pth(path, {*this, type, validate().norms, sane_});
}

std::string Rwkv7Checkpoint::write_hugging_face(const fs::path& folder, StoredType type,
                                                std::optional<int32_t> end_of_document) const {
  const Rwkv7Shape shape = validate();
  write_rwkv7_hugging_face(folder, {*this, type, shape.norms, sane_}, end_of_document);
  std::string notes =
      "With [flash-linear-attention](https://github.com/fla-org/flash-linear-attention), on a GPU:\n\n"
      "```python\nimport fla\nfrom transformers import AutoModelForCausalLM\n\n"
      "model = AutoModelForCausalLM.from_pretrained(\"PATH\")\n```\n";
  if (shape.norms.group_eps != float(double(shape.head_size) * double(shape.norms.layer_eps)))
    notes += cat("\nThat program normalizes heads with an epsilon of head_dim x norm_eps; this model was ",
                 "trained with ", shape.norms.group_eps, ", so its results differ a little.\n");
  return notes;
}

}  // namespace deltasane
