// Decompression of untrusted bytes. Memory grows with what comes out, never with what a header
// promises; a library that this build does not have is an error that names its package.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace deltasane {

enum class Codec {
  none,
  snappy,      // one block, without framing
  gzip,        // members of gzip or zlib, one behind another
  zstd,        // frames, one behind another
  lz4,         // one block, without framing
  hadoop_lz4,  // blocks, each behind its two sizes, big-endian
};

std::string_view name_of(Codec codec);
// Whether this build has the library.
bool has_codec(Codec codec);

// What `bytes` unpack to: exactly `size` bytes, or an error that begins with `name`. A view of
// `bytes` for Codec::none, else of `room`.
std::span<const std::byte> decompress_block(Codec codec, std::span<const std::byte> bytes,
                                            uint64_t size, std::vector<std::byte>& room,
                                            std::string_view name);

using ByteSink = std::function<void(std::span<const std::byte>)>;

// Gives what `bytes` unpack to in pieces. Of gzip and zstd only.
void decompress_stream(Codec codec, std::span<const std::byte> bytes, std::string_view name,
                       const ByteSink& sink);

}  // namespace deltasane
