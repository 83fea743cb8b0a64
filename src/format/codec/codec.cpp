#include "format/codec/codec.h"

#include <algorithm>
#include <cstring>

#include "format/codec/libraries.h"

namespace deltasane {
namespace {

// A block of these cannot unpack to more than so many times its size.
constexpr uint64_t snappy_ratio = 64, lz4_ratio = 256;

struct Known {
  Codec codec;
  std::string_view name, package;
  const bool& built;
};
constexpr bool always = true;
const Known known[] = {{Codec::none, "none", "", always},
                       {Codec::snappy, "snappy", "libsnappy-dev", codec::snappy_built},
                       {Codec::gzip, "gzip", "zlib1g-dev", codec::gzip_built},
                       {Codec::zstd, "zstd", "libzstd-dev", codec::zstd_built},
                       {Codec::lz4, "lz4", "liblz4-dev", codec::lz4_built},
                       {Codec::hadoop_lz4, "lz4 (Hadoop)", "liblz4-dev", codec::lz4_built}};

const Known& row_of(Codec codec) { return *std::ranges::find(known, codec, &Known::codec); }

void expect_built(Codec codec, std::string_view name) {
  const Known& row = row_of(codec);
  if (!row.built)
    fail(Fault::file, name, ": expected a codec that this build has, found ", row.name,
         ". Install ", row.package, " and build again, or write the file without compression");
}

uint32_t big_endian(std::span<const std::byte> bytes) {
  uint32_t value = 0;
  for (size_t i = 0; i < 4; ++i) value = value << 8 | uint32_t(bytes[i]);
  return value;
}

bool hadoop_lz4_blocks(std::span<const std::byte> bytes, std::span<std::byte> out) {
  while (!bytes.empty()) {
    if (bytes.size() < 8) return false;
    const uint64_t size = big_endian(bytes), packed = big_endian(bytes.subspan(4));
    bytes = bytes.subspan(8);
    if (packed > bytes.size() || size > out.size()) return false;
    if (!codec::lz4_block(bytes.first(packed), out.first(size))) return false;
    bytes = bytes.subspan(packed);
    out = out.subspan(size);
  }
  return out.empty();
}

using BlockFunction = bool (*)(std::span<const std::byte>, std::span<std::byte>);

bool unpack_whole(BlockFunction unpack, uint64_t ratio, std::span<const std::byte> bytes,
                  uint64_t size, std::vector<std::byte>& room) {
  if (size / ratio > bytes.size()) return false;
  room.resize(size);
  return unpack(bytes, room);
}

bool unpack_stream(Codec codec, std::span<const std::byte> bytes, uint64_t size,
                   std::vector<std::byte>& room, std::string_view name) {
  room.clear();
  decompress_stream(codec, bytes, name, [&](std::span<const std::byte> piece) {
    if (piece.size() > size - room.size())
      fail(Fault::file, name, ": ", name_of(codec), ": expected ", size, " bytes, found more");
    room.insert(room.end(), piece.begin(), piece.end());
  });
  return room.size() == size;
}

}  // namespace

std::string_view name_of(Codec codec) { return row_of(codec).name; }
bool has_codec(Codec codec) { return row_of(codec).built; }

std::span<const std::byte> decompress_block(Codec codec, std::span<const std::byte> bytes,
                                            uint64_t size, std::vector<std::byte>& room,
                                            std::string_view name) {
  expect_built(codec, name);
  bool whole = false;
  switch (codec) {
    case Codec::none:
      whole = bytes.size() == size;
      break;
    case Codec::snappy:
      whole = unpack_whole(codec::snappy_block, snappy_ratio, bytes, size, room);
      break;
    case Codec::lz4:
      whole = unpack_whole(codec::lz4_block, lz4_ratio, bytes, size, room);
      break;
    case Codec::hadoop_lz4:
      whole = unpack_whole(hadoop_lz4_blocks, lz4_ratio, bytes, size, room);
      break;
    case Codec::gzip:
    case Codec::zstd:
      whole = unpack_stream(codec, bytes, size, room, name);
  }
  if (!whole)
    fail(Fault::file, name, ": ", name_of(codec), ": expected ", bytes.size(),
         " bytes to unpack to ", size, ", found damaged ones");
  return codec == Codec::none ? bytes : std::span<const std::byte>(room);
}

void decompress_stream(Codec codec, std::span<const std::byte> bytes, std::string_view name,
                       const ByteSink& sink) {
  require(codec == Codec::gzip || codec == Codec::zstd, "gzip and zstd are unpacked as streams");
  expect_built(codec, name);
  (codec == Codec::gzip ? codec::gzip_stream : codec::zstd_stream)(bytes, name, sink);
}

}  // namespace deltasane
