#include <cmath>

#include "model/gated_delta/checkpoint/tensor_table.h"
#include "model/gated_delta/model.h"
#include "model/cpu/load_weights.h"

namespace deltasane::gated_delta {

using kernel::Weights;
using kernel::WeightType;

class Model::Loader {
 public:
  Loader(Model& model, std::optional<WeightType> wanted) : model_(model), wanted_(wanted) {}

  void load() {
    const Config& c = model_.config();
    std::vector<std::byte> gathered;
    std::optional<StoredTensor> table = from().packed("embedding.weight", 0, gathered);
    if (!gathered.empty()) table.reset();  // only where it lies
    model_.embedding_ = EmbeddingTable(table, c.vocabulary, c.channels,
                                       [&] { return from().read("embedding.weight"); });
    for (int64_t n = 0; n < c.layers(); ++n) {
      model_.layers_.push_back(load_layer(n));
      from().file().drop_pages();  // copied weights need not be in memory twice
    }
    model_.norm_ = from().read("norm.weight");
    model_.head_ = load_one(c.tied ? "embedding.weight" : "head.weight", 0, wanted_);
    model_.weight_type_ = name_of(model_.layers_[0].mixer == Mixer::recurrent
                                      ? model_.layers_[0].recurrent.output->type()
                                  : model_.layers_[0].mixer == Mixer::attention
                                      ? model_.layers_[0].attention.output->type()
                                      : model_.layers_[0].latent.output->type());
    from().file().drop_pages();
  }

 private:
  const Checkpoint& from() const { return model_.checkpoint_; }

  Weights load_one(const std::string& name, int64_t matrix, std::optional<WeightType> wanted,
                   double read_share = 1) {
    const Shape all = from().shape(name);
    const bool one = all.rank() == 2;
    const Shape shape{all[one ? 0 : 1], all[one ? 1 : 2]};
    std::vector<std::byte> gathered;
    Weights weights = load_weights(
        {from().packed(name, matrix, gathered), from().type(name), shape,
         [&] { return one ? from().read(name) : read_matrix(name, matrix, shape); }},
        wanted, model_.memory_.get());
    model_.held_bytes_ += weights.bytes();
    model_.read_bytes_ += uint64_t(double(weights.bytes()) * read_share);
    return weights;
  }
  Tensor<float> read_matrix(const std::string& name, int64_t matrix, const Shape& shape) {
    if (last_read_ != name) read_ = from().read(name), last_read_ = name;
    Tensor<float> some(shape);
    std::copy_n(read_.data() + matrix * some.elements(), some.elements(), some.data());
    return some;
  }

  std::string name(std::string_view part) const { return layer_tensor(layer_, part); }
  Matrix matrix(std::string_view part) {
    if (!from().has(name(part))) return std::nullopt;
    return load_one(name(part), 0, wanted_);
  }
  // Small and sensitive: 8 bits are not for these.
  Matrix small_matrix(std::string_view part) {
    if (!from().has(name(part))) return std::nullopt;
    const WeightType nearest = nearest_type(from().type(name(part)));
    return load_one(name(part), 0,
                    is_quantized(wanted_.value_or(WeightType::q8)) ? nearest : wanted_);
  }
  Matrices matrices(std::string_view part, double read_share = 1) {
    Matrices all;
    const int64_t count = from().shape(name(part))[0];
    for (int64_t i = 0; i < count; ++i)
      all.push_back(load_one(name(part), i, wanted_, read_share));
    return all;
  }
  Vector vector(std::string_view part) const {
    return from().has(name(part)) ? from().read(name(part)) : Vector();
  }
  NetworkWeights network(const std::string& part) {
    return {matrix(part + "gate.weight"), matrix(part + "up.weight"),
            matrix(part + "down.weight")};
  }

  LayerWeights load_layer(int64_t number) {
    const Config& c = model_.config();
    layer_ = number;
    LayerWeights layer;
    layer.mixer = c.mixers[size_t(number)];
    layer.norms_after = c.norms_after && layer.mixer == Mixer::attention;
    layer.mixer_norm =
        vector(layer.norms_after ? "mixer_output_norm.weight" : "mixer_norm.weight");
    layer.ffn_norm = vector(layer.norms_after ? "ffn_output_norm.weight" : "ffn_norm.weight");
    if (layer.mixer == Mixer::recurrent) layer.recurrent = load_recurrent();
    if (layer.mixer == Mixer::attention)
      layer.attention = {matrix("mixer.q.weight"), matrix("mixer.gate.weight"),
                         matrix("mixer.k.weight"), matrix("mixer.v.weight"),
                         matrix("mixer.output.weight"), vector("mixer.q_norm.weight"),
                         vector("mixer.k_norm.weight")};
    if (layer.mixer == Mixer::latent)
      layer.latent = {matrix("mixer.q.weight"), matrix("mixer.kv_down.weight"),
                      matrix("mixer.output.weight"), vector("mixer.kv_norm.weight"),
                      matrices("mixer.k_up.weight"), matrices("mixer.v_up.weight")};
    if (c.experts[size_t(number)])
      layer.experts = load_experts();
    else
      layer.ffn = network("ffn.");
    for (const StatePart& part : model_.state_layout()->parts()) {
      if (part.layer != number) continue;
      if (part.kind == StateKind::memory) layer.memory = &part;
      if (part.kind == StateKind::convolution) layer.inputs = &part;
      if (part.kind == StateKind::cache) layer.cache = &part;
    }
    return layer;
  }

  RecurrentWeights load_recurrent() {
    const Config& c = model_.config();
    RecurrentWeights w;
    w.qkv = matrix("mixer.qkv.weight"), w.output = matrix("mixer.output.weight");
    w.gate = matrix("mixer.gate.weight");
    w.beta = small_matrix("mixer.beta.weight"), w.decay = small_matrix("mixer.decay.weight");
    w.decay_down = small_matrix("mixer.decay_down.weight");
    w.decay_up = small_matrix("mixer.decay_up.weight");
    w.gate_down = small_matrix("mixer.gate_down.weight");
    w.gate_up = small_matrix("mixer.gate_up.weight");
    w.decay_rate = vector("mixer.decay_log_rate"), w.decay_bias = vector("mixer.decay_bias");
    for (float& rate : w.decay_rate.span()) rate = std::exp(rate);
    w.gate_bias = vector("mixer.gate_bias"), w.output_norm = vector("mixer.output_norm.weight");
    const int64_t taps = std::max<int64_t>(1, c.taps), channels = c.mixed_channels();
    w.convolution = Vector({taps, channels});
    if (c.taps == 0) w.convolution.fill(1);
    const Vector stored = vector("mixer.convolution.weight");  // (channel, tap)
    for (int64_t i = 0; i < stored.elements(); ++i)
      w.convolution[i % taps * channels + i / taps] = stored[i];
    if (model_.sane().kind == SaneKind::trained) {
      const Vector w_tau = vector("mixer.w_tau");  // (channel, head)
      Vector turned({c.value_heads, c.channels});
      for (int64_t i = 0; i < w_tau.elements(); ++i)
        turned[i % c.value_heads * c.channels + i / c.value_heads] = w_tau[i];
      w.w_tau = Weights::copied(WeightType::f32, turned.span(), c.value_heads, c.channels,
                                model_.memory_.get());
    }
    return w;
  }

  ExpertWeights load_experts() {
    const Config& c = model_.config();
    const double share = double(c.experts_used) / double(c.expert_count);
    ExpertWeights w;
    w.router = small_matrix("ffn.router.weight");
    w.router_bias = vector("ffn.router_bias");
    w.shared_gate = small_matrix("ffn.shared_gate.weight");
    w.gate = matrices("ffn.experts.gate.weight", share);
    w.up = matrices("ffn.experts.up.weight", share);
    w.down = matrices("ffn.experts.down.weight", share);
    if (c.shared_expert_size) w.shared = network("ffn.shared.");
    return w;
  }

  Model& model_;
  std::optional<WeightType> wanted_;
  int64_t layer_ = 0;
  std::string last_read_;
  Tensor<float> read_;
};

Model::Model(Checkpoint checkpoint, const OpenOptions& options)
    : LanguageModel(checkpoint.describe(), checkpoint.state_layout(),
                    chosen_sane(checkpoint.sane(), options.sane, checkpoint.where()),
                    options.device),
      checkpoint_(std::move(checkpoint)),
      config_(with_window(checkpoint_.config(), options.attention_window)),
      drops_rows_(options.attention_window.has_value()),
      memory_(std::make_unique<kernel::WeightMemory>(uint64_t{256} << 20)) {
  require(!on_gpu(), "a model on a GPU is another class");
  Loader(*this, options.weights).load();
}

}  // namespace deltasane::gated_delta
