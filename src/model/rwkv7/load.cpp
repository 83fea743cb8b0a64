#include "kernel/norm/norm.h"
#include "model/cpu/load_weights.h"
#include "model/rwkv7/model.h"
#include "model/rwkv7/gpu/model.h"
#include "tensor/cuda/gpu.h"

namespace deltasane {
namespace {

using kernel::Weights;
using kernel::WeightType;

Tensor<float> transposed(const Tensor<float>& from) {
  Tensor<float> to({from.shape()[1], from.shape()[0]});
  const View<const float> source = from.view();
  const View<float> target = to.view();
  for (int64_t i = 0; i < from.shape()[0]; ++i)
    for (int64_t j = 0; j < from.shape()[1]; ++j) target(j, i) = source(i, j);
  return to;
}

}  // namespace

Rwkv7::Rwkv7(Rwkv7Checkpoint checkpoint, const OpenOptions& options)
    : LanguageModel(checkpoint.describe(), checkpoint.state_layout(),
                    chosen_sane(checkpoint.sane(), options.sane, checkpoint.where()),
                    options.device),
      checkpoint_(std::move(checkpoint)),
      shape_(checkpoint_.validate()),
      wanted_(options.weights) {
  on_gpu() ? load_on_gpu(options.stored_types) : load_on_cpu();
}

void Rwkv7::load_on_gpu([[maybe_unused]] bool stored_types) {
  if constexpr (built_with_cuda) {
    gpu_ = Rwkv7OnGpu::open(checkpoint_, shape_, sane(), {*device().gpu, wanted_, stored_types});
    weight_type_ = name_of(gpu_->weight_type());
  } else {
    require(false, "a device of another build is refused where it is named");
  }
}

void Rwkv7::load_on_cpu() {
  memory_ = std::make_unique<kernel::WeightMemory>(uint64_t{256} << 20);  // few ends of blocks
  embedding_ = EmbeddingTable(checkpoint_.in_place("emb.weight"), shape_.vocabulary, shape_.channels,
                              [&] { return checkpoint_.read("emb.weight"); });
  if (shape_.embedding_norm) ln0_ = load_norm("blocks.0.ln0");
  for (int64_t i = 0; i < shape_.layers; ++i) {
    layers_.push_back(load_layer(i));
    checkpoint_.file().drop_pages();  // copied weights need not be in memory twice
  }
  ln_out_ = load_norm("ln_out");
  head_ = load_matrix("head.weight");
  checkpoint_.file().drop_pages();
  weight_type_ = name_of(layers_.front().key.type());
}

Rwkv7::Norm Rwkv7::load_norm(const std::string& name) const {
  return {checkpoint_.read(name + ".weight"), checkpoint_.read(name + ".bias")};
}

Weights Rwkv7::load_matrix(const std::string& name) const {
  return load_weights({checkpoint_.in_place(name), checkpoint_.type(name), checkpoint_.shape(name),
                       [&] { return checkpoint_.read(name); }},
                      wanted_, memory_.get());
}

// Low-rank factors are stored (in, out) and used (out, in). They are small and sensitive: 8 bits
// are not for them.
Rwkv7::LowRankWeights Rwkv7::load_low_rank(const std::string& down, const std::string& up) const {
  const auto load = [&](const std::string& name) {
    const Tensor<float> factor = transposed(checkpoint_.read(name));
    WeightType type = wanted_.value_or(nearest_type(checkpoint_.type(name)));
    if (is_quantized(type)) type = nearest_type(checkpoint_.type(name));
    return Weights::copied(type, factor.span(), factor.shape()[0], factor.shape()[1],
                           memory_.get());
  };
  return {load(down), load(up)};
}

Rwkv7::Layer Rwkv7::load_layer(int64_t index) const {
  const std::string block = cat("blocks.", index, "."), att = block + "att.", ffn = block + "ffn.";
  const auto vector = [&](const std::string& name) { return checkpoint_.read(name); };
  Layer layer{load_norm(block + "ln1"),
              load_norm(block + "ln2"),
              load_norm(att + "ln_x"),
              {vector(att + "x_r"), vector(att + "x_w"), vector(att + "x_k"), vector(att + "x_v"),
               vector(att + "x_a"), vector(att + "x_g")},
              vector(ffn + "x_k"),
              vector(att + "w0"),
              vector(att + "a0"),
              index > 0 ? vector(att + "v0") : Vector(),
              vector(att + "k_k"),
              vector(att + "k_a"),
              vector(att + "r_k"),
              load_matrix(att + "receptance.weight"),
              load_matrix(att + "key.weight"),
              load_matrix(att + "value.weight"),
              load_matrix(att + "output.weight"),
              load_matrix(ffn + "key.weight"),
              load_matrix(ffn + "value.weight"),
              load_low_rank(att + "w1", att + "w2"),
              load_low_rank(att + "a1", att + "a2"),
              load_low_rank(att + "g1", att + "g2"),
              std::nullopt,
              Vector(),
              std::nullopt};
  if (index > 0) layer.v = load_low_rank(att + "v1", att + "v2");
  if (sane().kind == SaneKind::trained) {
    layer.x_tau = vector(att + "x_tau");
    const Tensor<float> w_tau = transposed(vector(att + "w_tau"));
    layer.w_tau = Weights::copied(WeightType::f32, w_tau.span(), shape_.heads, shape_.channels,
                                  memory_.get());
  }
  return layer;
}

std::vector<LanguageModel::NamedMatrix> Rwkv7::matrices() const {
  std::vector<NamedMatrix> all;
  for (size_t i = 0; i < layers_.size(); ++i) {
    const Layer& layer = layers_[i];
    const std::string att = cat("blocks.", i, ".att."), ffn = cat("blocks.", i, ".ffn.");
    all.push_back({att + "receptance.weight", &layer.receptance});
    all.push_back({att + "key.weight", &layer.key});
    all.push_back({att + "value.weight", &layer.value});
    all.push_back({att + "output.weight", &layer.output});
    all.push_back({ffn + "key.weight", &layer.ffn_key});
    all.push_back({ffn + "value.weight", &layer.ffn_value});
  }
  if (head_) all.push_back({"head.weight", &*head_});
  return all;
}

std::string Rwkv7::gpu_name() const { return gpu_ ? gpu_->gpu_name() : std::string(); }
uint64_t Rwkv7::gpu_resident_bytes() const { return gpu_ ? gpu_->resident_bytes() : 0; }

uint64_t Rwkv7::weight_bytes() const {
  if (gpu_) return gpu_->weight_bytes();
  return read_bytes() + embedding_.bytes();
}

uint64_t Rwkv7::read_bytes() const {
  if (gpu_) return gpu_->read_bytes();
  uint64_t bytes = head_->bytes();
  for (const Layer& l : layers_) {
    for (const Weights* w : {&l.receptance, &l.key, &l.value, &l.output, &l.ffn_key, &l.ffn_value,
                             &l.w.down, &l.w.up, &l.a.down, &l.a.up, &l.g.down, &l.g.up})
      bytes += w->bytes();
    if (l.v) bytes += l.v->down.bytes() + l.v->up.bytes();
    if (l.w_tau) bytes += l.w_tau->bytes();
  }
  return bytes;
}

void Rwkv7::embed(std::span<const int32_t> tokens, View<float> x, const kernel::Cpu& cpu) const {
  embedding_.read(tokens, x);
  // nothing else is used where it lies, and random rows of a long input bring in most of the file
  if (int64_t(tokens.size()) > kernel::matmul_few_tokens) checkpoint_.file().drop_pages();
  if (ln0_) kernel::layer_norm(x, ln0_->weight.data(), ln0_->bias.data(), shape_.norms.layer_eps, x, cpu);
}

}  // namespace deltasane
