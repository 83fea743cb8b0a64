// What a packed file may unpack to; more is a bomb.
#pragma once

#include <cstdint>
#include <filesystem>

#include "base/error.h"

namespace deltasane::corpus {

class UnpackedSize {
 public:
  UnpackedSize(const std::filesystem::path& file, uint64_t packed)
      : file_(file), most_(free_bytes + most_ratio * packed) {}

  // Fails where it becomes too large.
  void add(uint64_t bytes) {
    if (bytes > most_ - size_)
      fail(Fault::file, file_, ": expected at most ", most_, " bytes unpacked (", most_ratio,
           " for each of the file's), found more");
    size_ += bytes;
  }

 private:
  static constexpr uint64_t free_bytes = uint64_t{64} << 20, most_ratio = 1024;

  const std::filesystem::path file_;
  uint64_t most_, size_ = 0;
};

}  // namespace deltasane::corpus
