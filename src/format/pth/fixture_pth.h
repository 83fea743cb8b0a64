// For tests: PyTorch files built by hand, valid or with one defect.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "support/fixture_bytes.h"

namespace deltasane::test {

struct ZipPiece {
  std::string name, bytes;
  uint16_t method = 0, flags = 0x0808;
  int64_t stated_size = -1;     // in the directory; -1: the true one
  int64_t local_size = 0;       // in the local header; 0 with a descriptor
  int64_t local_offset = -1;    // in the directory; -1: the true one
  std::string local_name = {};  // empty: the same
  std::optional<uint32_t> checksum = std::nullopt;        // in the directory; none: the true one
  std::optional<uint32_t> local_checksum = std::nullopt;  // in the local header; none: 0
  std::optional<uint32_t> descriptor_size = std::nullopt;  // none: the true one
};

enum class Zip64 { no, yes };
std::string zip_of(const std::vector<ZipPiece>& pieces, Zip64 zip64 = Zip64::yes);

// A pickle builder, one opcode per call.
class Pickle {
 public:
  Pickle() { raw("\x80\x02"); }
  Pickle& raw(std::string_view bytes) {
    bytes_.text(bytes);
    return *this;
  }
  Pickle& global(std::string_view module, std::string_view name);
  Pickle& text(std::string_view value);
  Pickle& integer(int64_t value);
  Pickle& tuple(const std::vector<int64_t>& values);
  Pickle& empty_ordered_dict() { return global("collections", "OrderedDict").raw(")R"); }
  Pickle& storage(std::string_view type, std::string_view key, int64_t count);
  Pickle& tensor(std::string_view type, std::string_view key, int64_t count, int64_t offset,
                 const std::vector<int64_t>& size, const std::vector<int64_t>& stride);
  std::string end() { return raw(".").bytes_.string(); }

 private:
  Bytes bytes_;
};

// A whole file around a pickle; storages are named 0, 1, ...
std::vector<ZipPiece> pth_pieces(const std::string& pickle,
                                 const std::vector<std::string>& storages);
std::string pth_of(const std::string& pickle, const std::vector<std::string>& storages);

}  // namespace deltasane::test
