#include "format/quantize/fill.h"
#include "model/rwkv7/checkpoint/write.h"
#include "format/safetensors/safetensors.h"

namespace deltasane {

void write_rwkv7_safetensors(const fs::path& path, const TensorSource& source, StoredType type,
                             const Metadata& metadata) {
  if (!dtype_of(type))
    fail(Fault::argument, path, ": expected f32, f16 or bf16 for safetensors, found ",
         name_of(type));
  const Rwkv7Shape shape = measure_rwkv7(source);
  sane_settings(shape.sane, metadata, path.string());
  std::vector<PlannedTensor> plan;
  each_rwkv7_tensor(shape, [&](const std::string& name, const Rwkv7Row& row) {
    PlannedTensor tensor{name, type, rwkv7_shape(shape, row)};
    if (row.form == Rwkv7Row::Form::spread_vector) tensor.shape = {1, 1, tensor.shape[0]};
    plan.push_back(std::move(tensor));
  });
  Metadata all = metadata;
  all["architecture"] = "rwkv7";
  write_safetensors(path, std::move(plan), all, [&](const PlannedTensor& tensor, const Sink& sink) {
    fill_tensor(tensor, source.read(tensor.name), sink);
  });
}

}  // namespace deltasane
