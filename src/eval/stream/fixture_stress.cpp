#include "eval/stream/fixture_stress.h"

#include <cmath>

#include "model/rwkv7/checkpoint/fixture_held.h"
#include "model/rwkv7/checkpoint/write.h"

namespace deltasane::test {
namespace {

constexpr int64_t heads = 4, size = 16, channels = heads * size;
// Channels of the normalised embedding: +g after 'a' and -g after 'b'; always 1.
constexpr int64_t which = 0, opposite = 1, always = 2;
const double g = std::sqrt(double(channels) / 2);

class BuiltModel : public HeldRwkv7 {
 public:
  explicit BuiltModel(const Rwkv7Shape& shape) {
    each_rwkv7_tensor(shape, [&](const std::string& name, const Rwkv7Row& row) {
      tensors.emplace(name, Tensor<float>(rwkv7_shape(shape, row)));
    });
  }
  View<float> block(int64_t layer, const char* suffix) {
    return tensors.at(rwkv7_block_name(layer, suffix)).view();
  }
  void fill(int64_t layer, const char* suffix, double value) {
    tensors.at(rwkv7_block_name(layer, suffix)).fill(float(value));
  }
};

// A weight that makes `row` come out as `a` after 'a' and as `b` after 'b'.
void choose_output(const View<float>& matrix, int64_t row, double a, double b) {
  matrix(row, always) = float((a + b) / 2);
  matrix(row, which) = float((a - b) / 2 / g);
}

void plan_linear(BuiltModel& model, const PlannedHead& plan) {
  const int64_t first = plan.head * size;
  choose_output(model.block(plan.layer, "att.key.weight"), first, 1, 1);
  for (int64_t i = 0; i < size; ++i) {  // |v| = rate, |k| = 1
    const double v = plan.rate / std::sqrt(double(size));
    choose_output(model.block(plan.layer, "att.value.weight"), first + i, v, v);
    model.block(plan.layer, "att.a0")(first + i) = -60;
  }
}

void plan_exponential(BuiltModel& model, const PlannedHead& plan) {
  const double growth = std::exp(2 * plan.rate);  // of two tokens
  const double x = growth * (3 - std::sqrt(5 - 4 * growth)) / (2 + 2 * growth);
  const double s = std::sqrt(x), c = std::sqrt(1 - x), p = s, q = c;
  const int64_t first = plan.head * size;
  const View<float> key = model.block(plan.layer, "att.key.weight");
  choose_output(key, first, c, p);
  choose_output(key, first + 1, s, q);
  for (int64_t i = 0; i < size; ++i)
    choose_output(model.block(plan.layer, "att.value.weight"), first + i, 0.01, 0.01);
  const View<float> up = model.block(plan.layer, "att.a2");  // a1 hands on which token it is
  up(0, first) = float(60 / g);
  up(0, first + 1) = float(-60 / g);
}

}  // namespace

void write_stress_model(const fs::path& path, int64_t layers,
                        const std::vector<PlannedHead>& plan) {
  const Rwkv7Shape shape{.layers = layers,
                         .channels = channels,
                         .heads = heads,
                         .head_size = size,
                         .feed_forward = channels,
                         .vocabulary = 256,
                         .rank_w = 1,
                         .rank_a = 1,
                         .rank_v = layers > 1 ? 1 : 0,
                         .rank_g = 1};
  BuiltModel model(shape);
  const View<float> emb = model.tensors.at("emb.weight").view();
  const View<float> head = model.tensors.at("head.weight").view();
  for (int64_t token = 0; token < 256; ++token) {
    const float sign = token == 'b' ? -1000.0f : 1000.0f;
    emb(token, which) = sign, emb(token, opposite) = -sign;
    head(token, which) = token == 'a' ? -0.3f : token == 'b' ? 0.3f : 0;
  }
  model.tensors.at("ln_out.weight").fill(1);
  model.fill(0, "ln0.weight", 1000);  // so that the eps of later norms does not count
  for (int64_t layer = 0; layer < layers; ++layer) {
    model.block(layer, "ln1.weight")(which) = 1;
    model.block(layer, "ln1.bias")(always) = 1;
    model.fill(layer, "ln2.weight", 1);
    model.fill(layer, "att.ln_x.weight", 1);
    model.fill(layer, "att.k_k", 1);
    model.block(layer, "att.a1")(which, 0) = 1;
    if (layer > 0) model.fill(layer, "att.v0", -60);  // keeps its own values
    model.fill(layer, "att.w0", 4);                   // forgets
    for (int64_t i = 0; i < channels; ++i) {
      choose_output(model.block(layer, "att.key.weight"), i, 0.1, 0.1);
      choose_output(model.block(layer, "att.value.weight"), i, 0.1, -0.1);
      choose_output(model.block(layer, "att.receptance.weight"), i, 1, 1);
    }
  }
  for (const PlannedHead& planned : plan) {
    for (int64_t i = planned.head * size; i < (planned.head + 1) * size; ++i) {
      choose_output(model.block(planned.layer, "att.key.weight"), i, 0, 0);
      model.block(planned.layer, "att.w0")(i) = -60;  // never forgets
    }
    planned.exponential ? plan_exponential(model, planned) : plan_linear(model, planned);
  }
  write_rwkv7_safetensors(path, model, StoredType::f32, {});
}

corpus::Piece AlternatingSource::piece(uint64_t) const {
  corpus::Piece piece;
  for (int i = 0; i < 512; ++i) piece.text += "ab";
  return piece;
}

}  // namespace deltasane::test
