#include <limits>

#include "base/io/byte_writer.h"
#include "format/pth/pth.h"
#include "format/pth/zip_write.h"

namespace deltasane {
namespace {

std::string_view storage_type(const PlannedTensor& tensor) {
  switch (tensor.type) {
    case StoredType::f64:
      return "DoubleStorage";
    case StoredType::f32:
      return "FloatStorage";
    case StoredType::f16:
      return "HalfStorage";
    case StoredType::bf16:
      return "BFloat16Storage";
    case StoredType::i64:
      return "LongStorage";
    default:
      fail(Fault::argument, "tensor ", tensor.name, ": expected f64, f32, f16, bf16 or i64 for a ",
           ".pth, found ", name_of(tensor.type));
  }
}

// Pickle protocol 2, without a memo: what torch.save writes for an OrderedDict of tensors.
class PickleWriter {
 public:
  PickleWriter() {
    out_.text("\x80\x02");
    ordered_dict();
    out_.text("(");
  }
  void tensor(const PlannedTensor& tensor, size_t key) {
    text(tensor.name);
    global("torch._utils", "_rebuild_tensor_v2");
    out_.text("((");  // its arguments; the persistent id of its storage
    text("storage");
    global("torch", storage_type(tensor));
    text(cat(key));
    text("cpu");
    integer(tensor.shape.elements());
    out_.text("tQ");
    integer(0);  // the offset in the storage
    tuple(tensor.shape);
    tuple(contiguous_strides(tensor.shape));
    out_.text("\x89");  // needs no gradient
    ordered_dict();
    out_.text("tR");
  }
  std::string_view finish() {
    out_.text("u.");
    return {reinterpret_cast<const char*>(out_.bytes().data()), out_.size()};
  }

 private:
  void global(std::string_view module, std::string_view name) {
    out_.text(cat("c", module, "\n", name, "\n"));
  }
  void ordered_dict() {
    global("collections", "OrderedDict");
    out_.text(")R");
  }
  void text(std::string_view value) {
    out_.text("X");
    out_.number<uint32_t>(uint32_t(value.size()));
    out_.text(value);
  }
  void integer(int64_t value) {
    if (value <= std::numeric_limits<int32_t>::max()) {
      out_.text("J");
      out_.number<int32_t>(int32_t(value));
    } else {
      out_.text("\x8a\x08");  // a long of 8 bytes
      out_.number<int64_t>(value);
    }
  }
  void tuple(const Shape& values) {
    out_.text("(");
    for (const int64_t value : values) integer(value);
    out_.text("t");
  }

  ByteWriter out_;
};

}  // namespace

void write_pth(const fs::path& path, const std::vector<PlannedTensor>& plan,
               const FillTensor& fill) {
  PickleWriter pickle;
  for (size_t key = 0; key < plan.size(); ++key) pickle.tensor(plan[key], key);
  AtomicFile file(path);
  ZipWriter zip(file);
  zip.add("archive/data.pkl", pickle.finish());
  zip.add("archive/.format_version", "1");
  zip.add("archive/.storage_alignment", "64");
  zip.add("archive/byteorder", "little");
  for (size_t key = 0; key < plan.size(); ++key) {
    zip.begin(cat("archive/data/", key), plan[key].bytes());
    fill(plan[key], [&](std::span<const std::byte> piece) { zip.write(piece); });
    zip.end();
  }
  zip.add("archive/version", "3\n");
  zip.finish();
  file.commit();
}

}  // namespace deltasane
