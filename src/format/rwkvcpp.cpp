#include "format/rwkvcpp.h"

#include <array>

#include "base/printable.h"
#include "base/io/byte_reader.h"

namespace deltasane {
namespace {

constexpr uint32_t magic = 0x67676d66;
constexpr int32_t plain_version = 100, quantised_version = 101;

constexpr std::array<std::pair<int32_t, StoredType>, 7> types{{
    {0, StoredType::f32},
    {1, StoredType::f16},
    {2, StoredType::q4_0},
    {3, StoredType::q4_1},
    {7, StoredType::q5_0},
    {8, StoredType::q5_1},
    {9, StoredType::q8_0},
}};

StoredType type_of(int32_t number, int32_t version, const ByteReader& in) {
  for (const auto& [known, type] : types)
    if (known == number && (version == quantised_version || layout_of(type).block == 1))
      return type;
  in.reject("expected a type of rwkv.cpp (FP32, FP16, and in version 101 Q4_0, Q4_1, Q5_0, Q5_1, ",
            "Q8_0), found number ", number);
}

StoredTensor read_record(ByteReader& in, int32_t version, const std::string& file) {
  const auto rank = in.number<int32_t>("dimension count");
  const auto length = in.number<int32_t>("name length");
  const auto number = in.number<int32_t>("type");
  if (rank < 1 || rank > 3) in.reject("expected 1 to 3 dimensions, found ", rank);
  if (length < 1 || size_t(length) > max_tensor_name)
    in.reject("expected a name of 1 to ", max_tensor_name, " bytes, found ", length);
  StoredTensor tensor;
  tensor.type = type_of(number, version, in);
  std::array<uint64_t, 3> sizes{};
  for (int32_t i = rank - 1; i >= 0; --i) {  // fastest first in the file
    const auto size = in.number<int32_t>("size");
    if (size < 0) in.reject("expected sizes that are not negative, found ", size);
    sizes[size_t(i)] = uint64_t(size);
  }
  tensor.name = in.text(uint64_t(length), "name");
  tensor.offset = in.offset();
  const std::string what = cat("tensor ", printable(tensor.name));
  const std::string place = cat(file, ": ", what, " at byte ", tensor.offset);
  tensor.shape = checked_shape(std::span(sizes).first(size_t(rank)), place);
  tensor.stride = contiguous_strides(tensor.shape);
  const int64_t block = layout_of(tensor.type).block;
  if (tensor.shape[rank - 1] % block != 0)
    fail(Fault::file, place, ": expected rows of whole blocks of ", block, ", found shape ",
         tensor.shape);
  tensor.bytes = in.take(stored_bytes(tensor.type, uint64_t(tensor.shape.elements()), place), what);
  return tensor;
}

}  // namespace

TensorFile read_rwkvcpp(std::span<const std::byte> bytes, const std::string& name) {
  ByteReader in(bytes, name);
  if (in.number<uint32_t>("magic") != magic)
    fail(Fault::file, name, ": at byte 0: expected an rwkv.cpp file, found another");
  const auto version = in.number<int32_t>("version");
  if (version != plain_version && version != quantised_version)
    fail(Fault::file, name, ": at byte 4: expected version 100 or 101 of rwkv.cpp's format, found ",
         version);
  TensorFile file("rwkv.cpp", name);
  for (const char* const key : {"n_vocab", "n_embed", "n_layer"}) {
    const auto value = in.number<int32_t>(key);
    if (value <= 0) in.reject(key, ": expected a positive number, found ", value);
    file.metadata()[key] = cat(value);
  }
  file.metadata()["data_type"] = name_of(type_of(in.number<int32_t>("type"), version, in));
  while (in.remaining() > 0) file.add(read_record(in, version, name));
  return file;
}

TensorFile open_rwkvcpp(const fs::path& path) { return open_mapped(path, read_rwkvcpp); }

}  // namespace deltasane
