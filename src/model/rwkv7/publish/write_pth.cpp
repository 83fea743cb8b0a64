#include "format/pth/pth.h"
#include "format/quantize/fill.h"
#include "model/rwkv7/checkpoint/source.h"
#include "model/rwkv7/publish/publish.h"

namespace deltasane {
namespace {

// v0, v1 and v2 where they do nothing: block 0 of a model that has them in other blocks.
void plan_unused(const Rwkv7Shape& shape, StoredType type, std::vector<PlannedTensor>& plan) {
  for (const Rwkv7Row& row : rwkv7_rows()) {
    if (row.where != Rwkv7Row::Where::later_blocks || shape.layers < 2) continue;
    plan.push_back({rwkv7_block_name(0, row.suffix), type, rwkv7_shape(shape, row)});
    if (row.form == Rwkv7Row::Form::spread_vector) plan.back().shape = {1, 1, shape.channels};
  }
}

}  // namespace

void write_rwkv7_pth(const fs::path& path, const Rwkv7Published& model) {
  if (!dtype_of(model.type))
    fail(Fault::usage, path, ": expected f32, f16 or bf16 for a .pth, found ", name_of(model.type));
  if (model.norms != Rwkv7Norms{})
    fail(Fault::usage, path, ": expected a model with the official norms for a .pth, which cannot ",
         "state others; write .safetensors or a Hugging Face folder");
  const Rwkv7Shape shape = measure_rwkv7(model.source);
  require(shape.sane == model.sane.has_value(), "a SANE model has SANE's settings");
  std::vector<PlannedTensor> plan;
  each_rwkv7_parameter(shape, [&](const std::string& name, const Rwkv7Row& row, int64_t block) {
    PlannedTensor tensor{name, model.type, rwkv7_shape(shape, row)};
    if (row.form == Rwkv7Row::Form::spread_vector) tensor.shape = {1, 1, tensor.shape[0]};
    if (block == 0 && row.suffix == "att.g1") plan_unused(shape, model.type, plan);
    plan.push_back(std::move(tensor));
  });
  if (model.sane) {
    plan.push_back({std::string(sane_alpha_tensor), StoredType::f64, {1}});
    plan.push_back({std::string(sane_chunk_tensor), StoredType::i64, {1}});
  }
  write_pth(path, plan, [&](const PlannedTensor& tensor, const Sink& sink) {
    if (tensor.name == sane_alpha_tensor)
      sink(std::as_bytes(std::span(&model.sane->alpha, 1)));
    else if (tensor.name == sane_chunk_tensor)
      sink(std::as_bytes(std::span(&model.sane->chunk, 1)));
    else if (model.source.has(tensor.name))
      fill_tensor(tensor, model.source.read(tensor.name), sink);
    else
      fill_tensor(tensor, Tensor<float>(tensor.shape), sink);
  });
}

}  // namespace deltasane
