#include "model/rwkv7/slow_heads.h"

namespace deltasane {
namespace {

constexpr int64_t constant_channel = 0;  // of ln1
constexpr float no_decay = -60;          // of w0: exp(-0.6 sigmoid(-60)) is 1 as a float
constexpr float key = 0.5f;              // m: as large as other keys
constexpr float key_slope = 0.25f, rate_slope = 2;

// -1 on even channels, 1 on odd ones
float side(int64_t channel) { return channel % 2 == 0 ? -1.0f : 1.0f; }

}  // namespace

SlowHeadsRwkv7::SlowHeadsRwkv7(const TensorSource& source, const Rwkv7Shape& shape,
                               const SlowHeads& heads)
    : source_(source), shape_(shape), heads_(heads) {
  const int64_t most = shape.layers * shape.heads;
  if (heads.count < 0 || heads.count > most)
    fail(Fault::usage, "slow heads: expected 0 to ", most, ", as many as the model has, found ",
         heads.count);
}

std::vector<int64_t> SlowHeadsRwkv7::heads_of(int64_t layer) const {
  std::vector<int64_t> planted;
  for (int64_t i = 0; i < heads_.count; ++i) {
    const int64_t place = i * shape_.layers * shape_.heads / heads_.count;
    if (place / shape_.heads == layer) planted.push_back(place % shape_.heads);
  }
  return planted;
}

Tensor<float> SlowHeadsRwkv7::read(std::string_view name) const {
  for (int64_t layer = 0; layer < shape_.layers; ++layer) {
    const std::string block = rwkv7_block_name(layer, "");
    if (!name.starts_with(block)) continue;
    const std::vector<int64_t> planted = heads_of(layer);
    if (planted.empty()) break;
    const std::string_view suffix = name.substr(block.size());
    if (suffix == "att.x_k") return source_.read(block + "att.x_a");
    Tensor<float> tensor = source_.read(name);
    if (suffix == "ln1.weight") tensor[constant_channel] = 0;
    if (suffix == "ln1.bias") tensor[constant_channel] = 1;
    for (const int64_t head : planted) plant(suffix, layer, head, tensor.view());
    return tensor;
  }
  return source_.read(name);
}

void SlowHeadsRwkv7::plant(std::string_view suffix, int64_t layer, int64_t head,
                           View<float> tensor) const {
  const int64_t first = head * shape_.head_size, last = first + shape_.head_size;
  const int64_t column = head % shape_.rank_a;  // of a1: what f is
  if (suffix == "att.w0")
    for (int64_t c = first; c < last; ++c) tensor(c) = no_decay;
  if (suffix == "att.a0")
    for (int64_t c = first; c < last; ++c) tensor(c) = float(heads_.bias);
  if (suffix == "att.w2")
    for (int64_t rank = 0; rank < shape_.rank_w; ++rank)
      for (int64_t c = first; c < last; ++c) tensor(rank, c) = 0;
  if (suffix == "att.a2")
    for (int64_t rank = 0; rank < shape_.rank_a; ++rank)
      for (int64_t c = first; c < last; ++c)
        tensor(rank, c) = rank == column ? -side(c) * rate_slope : 0;
  if (suffix == "att.key.weight") {
    const Tensor<float> down = source_.read(rwkv7_block_name(layer, "att.a1"));
    for (int64_t c = first; c < last; ++c) {
      for (int64_t in = 0; in < shape_.channels; ++in)
        tensor(c, in) = side(c) * key * key_slope * down.view()(in, column);
      tensor(c, constant_channel) += key;
    }
  }
}

}  // namespace deltasane
