#include "format/pth/fixture_pth.h"

#include "base/crc32/crc32.h"

namespace deltasane::test {

std::string zip_of(const std::vector<ZipPiece>& pieces, Zip64 zip64) {
  Bytes out;
  Bytes directory;
  for (const ZipPiece& piece : pieces) {
    const uint64_t offset = out.size();
    const std::string& local_name = piece.local_name.empty() ? piece.name : piece.local_name;
    out.number(uint32_t{0x04034b50}).number(uint16_t{0}).number(piece.flags).number(piece.method);
    const uint32_t checksum =
        piece.checksum.value_or(crc32(std::as_bytes(std::span(piece.bytes))));
    out.number(uint32_t{0}).number(piece.local_checksum.value_or(0));
    out.number(uint32_t(piece.local_size)).number(uint32_t(piece.local_size));
    out.number(uint16_t(local_name.size()));
    const size_t start = out.size() + 2 + local_name.size() + 4;
    const auto padding = uint16_t((64 - start % 64) % 64);
    out.number(uint16_t(padding + 4)).text(local_name);
    out.number(uint16_t{0x4246}).number(padding).text(std::string(padding, 'Z'));
    out.text(piece.bytes);
    const auto size =
        uint32_t(piece.stated_size < 0 ? int64_t(piece.bytes.size()) : piece.stated_size);
    if (piece.flags & 0x0008)
      out.text("PK\x07\x08").number(checksum).number(size).number(
          piece.descriptor_size.value_or(size));

    directory.number(uint32_t{0x02014b50}).number(uint32_t{0}).number(piece.flags);
    directory.number(piece.method).number(uint32_t{0}).number(checksum);
    directory.number(size).number(size).number(uint16_t(piece.name.size()));
    directory.number(uint16_t{0}).number(uint16_t{0}).number(uint16_t{0}).number(uint16_t{0});
    directory.number(uint32_t{0});
    directory.number(uint32_t(piece.local_offset < 0 ? int64_t(offset) : piece.local_offset));
    directory.text(piece.name);
  }
  const uint64_t start = out.size(), size = directory.size(), count = pieces.size();
  out.text(directory.string());
  if (zip64 == Zip64::yes) {
    const uint64_t end64 = out.size();
    out.number(uint32_t{0x06064b50}).number(uint64_t{44}).number(uint32_t{0});
    out.number(uint32_t{0}).number(uint32_t{0}).number(count).number(count);
    out.number(size).number(start);
    out.number(uint32_t{0x07064b50}).number(uint32_t{0}).number(end64).number(uint32_t{1});
  }
  out.number(uint32_t{0x06054b50}).number(uint32_t{0});
  out.number(uint16_t(count)).number(uint16_t(count));
  out.number(uint32_t(size)).number(uint32_t(start)).number(uint16_t{0});
  return out.string();
}

Pickle& Pickle::global(std::string_view module, std::string_view name) {
  return raw("c").raw(module).raw("\n").raw(name).raw("\n");
}

Pickle& Pickle::text(std::string_view value) {
  raw("X");
  bytes_.number(uint32_t(value.size())).text(value);
  return *this;
}

Pickle& Pickle::integer(int64_t value) {
  raw(std::string_view("\x8a\x08", 2));
  bytes_.number(value);
  return *this;
}

Pickle& Pickle::tuple(const std::vector<int64_t>& values) {
  raw("(");
  for (const int64_t value : values) integer(value);
  return raw("t");
}

Pickle& Pickle::storage(std::string_view type, std::string_view key, int64_t count) {
  raw("(").text("storage").global("torch", type).text(key).text("cpu").integer(count);
  return raw("tQ");
}

Pickle& Pickle::tensor(std::string_view type, std::string_view key, int64_t count, int64_t offset,
                       const std::vector<int64_t>& size, const std::vector<int64_t>& stride) {
  global("torch._utils", "_rebuild_tensor_v2").raw("(").storage(type, key, count);
  integer(offset).tuple(size).tuple(stride).raw("\x89").empty_ordered_dict();
  return raw("tR");
}

std::vector<ZipPiece> pth_pieces(const std::string& pickle,
                                 const std::vector<std::string>& storages) {
  std::vector<ZipPiece> pieces{{"model/data.pkl", pickle}, {"model/byteorder", "little"}};
  for (size_t i = 0; i < storages.size(); ++i)
    pieces.push_back({cat("model/data/", i), storages[i]});
  pieces.push_back({"model/version", "3\n"});
  return pieces;
}

std::string pth_of(const std::string& pickle, const std::vector<std::string>& storages) {
  return zip_of(pth_pieces(pickle, storages));
}

}  // namespace deltasane::test
