#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/checked.h"
#include "format/safetensors/safetensors.h"

namespace deltasane {
namespace {

using Json = nlohmann::ordered_json;

std::string_view dtype_name(const PlannedTensor& tensor) {
  switch (tensor.type) {
    case StoredType::f64:
      return "F64";
    case StoredType::f32:
      return "F32";
    case StoredType::f16:
      return "F16";
    case StoredType::bf16:
      return "BF16";
    case StoredType::i64:
      return "I64";
    case StoredType::i32:
      return "I32";
    case StoredType::i16:
      return "I16";
    case StoredType::i8:
      return "I8";
    case StoredType::u64:
      return "U64";
    case StoredType::u32:
      return "U32";
    case StoredType::u16:
      return "U16";
    case StoredType::u8:
      return "U8";
    case StoredType::boolean:
      return "BOOL";
    default:
      fail(Fault::argument, "tensor ", tensor.name, ": safetensors has no type for ",
           name_of(tensor.type));
  }
}

std::string header_of(const std::vector<PlannedTensor>& plan, const Metadata& metadata) {
  Json header = Json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  uint64_t offset = 0;
  for (const PlannedTensor& tensor : plan) {
    if (header.contains(tensor.name))
      fail(Fault::argument, "tensor ", tensor.name, ": planned twice");
    const uint64_t end = checked_add(offset, tensor.bytes(), tensor.name);
    header[tensor.name] = {
        {"dtype", dtype_name(tensor)},
        {"shape", std::vector<int64_t>(tensor.shape.begin(), tensor.shape.end())},
        {"data_offsets", {offset, end}}};
    offset = end;
  }
  // Bytes that are not UTF-8 are replaced, not rejected.
  std::string text = header.dump(-1, ' ', false, Json::error_handler_t::replace);
  text.append((64 - (8 + text.size()) % 64) % 64, ' ');
  return text;
}

}  // namespace

void write_safetensors(const fs::path& path, std::vector<PlannedTensor> plan,
                       const Metadata& metadata, const FillTensor& fill) {
  std::stable_sort(plan.begin(), plan.end(), [](const PlannedTensor& a, const PlannedTensor& b) {
    return layout_of(a.type).bytes > layout_of(b.type).bytes;
  });
  const std::string header = header_of(plan, metadata);
  AtomicFile file(path);
  const uint64_t length = header.size();
  file.write(std::as_bytes(std::span(&length, 1)));
  file.write(header);
  for (const PlannedTensor& tensor : plan) {
    const uint64_t before = file.size();
    fill(tensor, [&](std::span<const std::byte> piece) { file.write(piece); });
    require(file.size() - before == tensor.bytes(), "a tensor is filled with its planned bytes");
  }
  file.commit();
}

}  // namespace deltasane
