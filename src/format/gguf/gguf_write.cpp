#include <array>

#include "base/checked.h"
#include "format/gguf/gguf.h"
#include "format/gguf/gguf_types.h"

namespace deltasane {
namespace {

// Builds the header.
class GgufHeader {
 public:
  template <class T>
  requires std::is_arithmetic_v<T>
  void put(T number) { bytes_.append(reinterpret_cast<const char*>(&number), sizeof number); }
  void put(std::string_view text) {
    put(uint64_t{text.size()});
    bytes_.append(text);
  }
  void put(GgufKind kind) { put(uint32_t(kind)); }

  void value(uint32_t number) { put(GgufKind::u32), put(number); }
  void value(int32_t number) { put(GgufKind::i32), put(number); }
  void value(float number) { put(GgufKind::f32), put(number); }
  void value(bool truth) { put(GgufKind::boolean), put(uint8_t(truth)); }
  void value(const std::string& text) { put(GgufKind::text), put(std::string_view(text)); }
  void value(const std::vector<std::string>& texts) {
    put(GgufKind::array), put(GgufKind::text), put(uint64_t{texts.size()});
    for (const std::string& text : texts) put(std::string_view(text));
  }
  void value(const std::vector<int32_t>& numbers) {
    put(GgufKind::array), put(GgufKind::i32), put(uint64_t{numbers.size()});
    for (const int32_t number : numbers) put(number);
  }
  void value(const std::vector<float>& numbers) {
    put(GgufKind::array), put(GgufKind::f32), put(uint64_t{numbers.size()});
    for (const float number : numbers) put(number);
  }

  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

uint64_t aligned(uint64_t offset) {
  return checked_add(offset, gguf_alignment - 1, "GGUF offset") / gguf_alignment * gguf_alignment;
}

uint32_t type_number(const PlannedTensor& tensor) {
  for (const GgmlType& known : ggml_types)
    if (known.type == tensor.type && known.type != StoredType::foreign) return known.number;
  fail(Fault::argument, "tensor ", tensor.name, ": GGUF has no type for ", name_of(tensor.type));
}

void pad(AtomicFile& file) {
  constexpr std::array<std::byte, gguf_alignment> zeros{};
  file.write(std::span(zeros).first(aligned(file.size()) - file.size()));
}

}  // namespace

void write_gguf(const fs::path& path, const std::vector<GgufEntry>& entries,
                const std::vector<PlannedTensor>& plan, const FillTensor& fill,
                const WriteProgress& progress) {
  GgufHeader header;
  header.put(gguf_magic);
  header.put(uint32_t{3});
  header.put(uint64_t{plan.size()});
  header.put(uint64_t{entries.size()});
  for (const GgufEntry& entry : entries) {
    header.put(std::string_view(entry.key));
    std::visit([&](const auto& value) { header.value(value); }, entry.value);
  }
  uint64_t offset = 0;
  for (const PlannedTensor& tensor : plan) {
    header.put(std::string_view(tensor.name));
    header.put(uint32_t(tensor.shape.rank()));
    for (int i = tensor.shape.rank() - 1; i >= 0; --i) header.put(uint64_t(tensor.shape[i]));
    header.put(type_number(tensor));
    header.put(offset);
    offset = aligned(checked_add(offset, tensor.bytes(), tensor.name));
  }
  const uint64_t all = offset;
  AtomicFile file(path);
  file.write(header.bytes());
  pad(file);
  const uint64_t start = file.size();
  for (const PlannedTensor& tensor : plan) {
    const uint64_t before = file.size();
    fill(tensor, [&](std::span<const std::byte> piece) { file.write(piece); });
    require(file.size() - before == tensor.bytes(), "a tensor is filled with its planned bytes");
    pad(file);
    if (progress) progress(file.size() - start, all);
  }
  file.commit();
}

}  // namespace deltasane
