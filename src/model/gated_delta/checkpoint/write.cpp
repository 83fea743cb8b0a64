#include "format/quantize/quantize.h"
#include "format/safetensors/safetensors.h"
#include "model/gated_delta/checkpoint/checkpoint.h"
#include "model/gated_delta/checkpoint/tensor_table.h"

namespace deltasane::gated_delta {

Metadata own_metadata(const Config& config, const Metadata& metadata) {
  Metadata all;
  for (const auto& [key, value] : metadata)
    if (key.starts_with("sane.")) all[key] = value;
  all["architecture"] = "gated_delta";
  store_settings(config, all);
  return all;
}

void write(const fs::path& path, const Config& config, const TensorSource& source, StoredType type,
           const Metadata& metadata) {
  if (!dtype_of(type))
    fail(Fault::argument, path, ": expected f32, f16 or bf16 for safetensors, found ",
         name_of(type));
  sane_settings(config.sane, metadata, path.string());
  std::vector<PlannedTensor> plan;
  each_tensor(config, [&](const std::string& name, const Shape& shape, TensorForm form) {
    plan.push_back({name, form == TensorForm::vector ? StoredType::f32 : type, shape});
  });
  deltasane::write_safetensors(
      path, std::move(plan), own_metadata(config, metadata),
      [&](const PlannedTensor& tensor, const Sink& sink) {
        const Tensor<float> values = source.read(tensor.name);
        std::vector<std::byte> bytes(tensor.bytes());
        quantize_from_float(tensor.type, values.span(), bytes, tensor.name);
        sink(bytes);
      });
}

void Checkpoint::write_safetensors(const fs::path& path, StoredType type,
                                   const Metadata& metadata) const {
  write(path, config_, *this, type, metadata);
}

}  // namespace deltasane::gated_delta
