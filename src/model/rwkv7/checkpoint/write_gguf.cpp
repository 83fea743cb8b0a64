#include <map>

#include "format/gguf/gguf.h"
#include "format/quantize/fill.h"
#include "format/quantize/quantize.h"
#include "model/rwkv7/checkpoint/norms.h"
#include "model/rwkv7/checkpoint/names.h"
#include "model/rwkv7/checkpoint/write.h"

namespace deltasane {
namespace {

// What a GGUF tensor is made of.
struct Recipe {
  std::vector<std::string> from;  // official names; several are put on top of each other
  bool transposed = false;
};

class Plan {
 public:
  Plan(const Rwkv7Shape& shape, const TensorSource& source, const GgufRequest& request)
      : shape_(shape), source_(source), request_(request) {
    each_rwkv7_tensor(shape, [&](const std::string& name, const Rwkv7Row& row) {
      const bool of_model = row.where == Rwkv7Row::Where::model;
      add(of_model ? -1 : block_of(name), name, row);
    });
  }

  std::vector<PlannedTensor> tensors;
  std::map<std::string, Recipe> recipes;

 private:
  static int64_t block_of(const std::string& name) {
    return std::stoll(name.substr(std::string_view("blocks.").size()));
  }

  void add(int64_t block, const std::string& name, const Rwkv7Row& row) {
    if (row.suffix == rwkv7_fused_order[0]) add_fused(block);
    for (const std::string_view fused : rwkv7_fused_order)
      if (row.suffix == fused) return;
    Shape shape = rwkv7_shape(shape_, row);
    const bool factor = row.form == Rwkv7Row::Form::factor;
    if (factor) shape = {shape[1], shape[0]};
    if (row.suffix == "att.r_k") shape = {shape.elements()};
    const std::string gguf = rwkv7_gguf_name(block, row.suffix);
    put({gguf, type_of(block, name, row, shape), shape}, {{name}, factor});
    if (block == 0 &&
        (row.suffix == "att.a0" || row.suffix == "att.a1" || row.suffix == "att.a2")) {
      std::string unused(row.suffix);
      unused[4] = 'v';
      put({rwkv7_gguf_name(0, unused), type_of(0, name, row, shape), shape}, {{name}, factor});
    }
  }

  void add_fused(int64_t block) {
    Recipe recipe;
    for (const std::string_view suffix : rwkv7_fused_order)
      recipe.from.push_back(rwkv7_block_name(block, suffix));
    put({rwkv7_gguf_name(block, "att.x_rwkvag"), StoredType::f32, {6, 1, 1, shape_.channels}},
        std::move(recipe));
  }

  StoredType type_of(int64_t block, const std::string& name, const Rwkv7Row& row,
                     const Shape& shape) const {
    const auto& [most, sensitive] = request_.types;
    if (shape.rank() == 1 || row.sane() || row.suffix == "att.w1" || row.suffix == "att.w2")
      return StoredType::f32;
    if (row.form == Rwkv7Row::Form::factor) return dtype_of(most) ? most : StoredType::f16;
    if (request_.keep == GgufRequest::Keep::stored_types)
      if (const auto stored = source_.in_place(name)) return stored->type;
    const bool value = row.suffix == "att.value.weight" || row.suffix == "ffn.value.weight";
    const bool costly =
        row.suffix == "head.weight" || (value && sensitive_layer(block, shape_.layers));
    return type_of_rows(costly ? sensitive : most, shape[1]);
  }

  void put(PlannedTensor tensor, Recipe recipe) {
    recipes.emplace(tensor.name, std::move(recipe));
    tensors.push_back(std::move(tensor));
  }

  const Rwkv7Shape& shape_;
  const TensorSource& source_;
  const GgufRequest& request_;
};

// Keys that this writer states itself; a caller's copies of another file's are dropped.
bool is_stated(const std::string& key) {
  return key.starts_with("rwkv7.") || key.starts_with("tokenizer.ggml.") ||
         key.starts_with("sane.") || key == "general.architecture" || key == "general.alignment" ||
         key == "general.file_type" || key == "general.quantization_version";
}

std::vector<GgufEntry> entries_of(const fs::path& path, const Rwkv7Shape& shape,
                                  const GgufRequest& request) {
  const Metadata& metadata = request.metadata;
  const Rwkv7Norms norms = rwkv7_norms(metadata, shape.head_size, path.string());
  std::vector<GgufEntry> entries{
      {"general.architecture", std::string("rwkv7")},
      {"general.file_type", gguf_file_type(request.types)},
      {"general.quantization_version", uint32_t{2}},
      {"rwkv7.context_length", uint32_t{1048576}},
      {"rwkv7.embedding_length", uint32_t(shape.channels)},
      {"rwkv7.block_count", uint32_t(shape.layers)},
      {"rwkv7.feed_forward_length", uint32_t(shape.feed_forward)},
      {"rwkv7.attention.layer_norm_epsilon", norms.layer_eps},
      {"rwkv7.attention.head_count", uint32_t{0}},
      {"rwkv7.wkv.head_size", uint32_t(shape.head_size)},
      {"rwkv7.attention.decay_lora_rank", uint32_t(shape.rank_w)},
      {"rwkv7.attention.iclr_lora_rank", uint32_t(shape.rank_a)},
      {"rwkv7.attention.value_residual_mix_lora_rank", uint32_t(shape.rank_v)},
      {"rwkv7.attention.gate_lora_rank", uint32_t(shape.rank_g)},
  };
  // llama.cpp has no keys for these, and computes what is official.
  for (const auto& [key, value] : rwkv7_norm_metadata(norms))
    if (key != "rwkv7.norm_eps") entries.push_back({key, value});
  if (const auto sane = sane_settings(shape.sane, metadata, path.string())) {
    entries.push_back({"sane.alpha", float(sane->alpha)});
    entries.push_back({"sane.chunk", uint32_t(sane->chunk)});
  }
  for (const auto& [key, value] : metadata)
    if (!is_stated(key)) entries.push_back({key, value});
  if (request.tokenizer.empty()) {
    entries.push_back({"rwkv7.vocab_size", uint32_t(shape.vocabulary)});
    entries.push_back({"tokenizer.ggml.model", std::string("none")});
  }
  entries.insert(entries.end(), request.tokenizer.begin(), request.tokenizer.end());
  return entries;
}

}  // namespace

void write_rwkv7_gguf(const fs::path& path, const TensorSource& source,
                      const GgufRequest& request) {
  const Rwkv7Shape shape = measure_rwkv7(source);
  const std::vector<GgufEntry> entries = entries_of(path, shape, request);
  const Plan plan(shape, source, request);
  write_gguf(path, entries, plan.tensors, [&](const PlannedTensor& tensor, const Sink& sink) {
    const Recipe& recipe = plan.recipes.at(tensor.name);
    if (recipe.from.size() == 1) {
      const auto stored = recipe.transposed ? std::nullopt : source.in_place(recipe.from[0]);
      if (stored && stored->type == tensor.type) return sink(stored->bytes);
      const Tensor<float> values = source.read(recipe.from[0]);
      if (recipe.transposed) return fill_transposed(tensor, values, sink);
      // Rows of the embedding are not multiplied with anything.
      const bool weighed = request.importance && uses_importance(tensor.type) &&
                           recipe.from[0] != "emb.weight";
      return fill_tensor(tensor, values, sink,
                         weighed ? request.importance(recipe.from[0], tensor.shape[1])
                                 : std::vector<float>());
    }
    for (const std::string& name : recipe.from)
      fill_tensor({name, tensor.type, {shape.channels}}, source.read(name), sink);
  }, request.progress);
}

}  // namespace deltasane
