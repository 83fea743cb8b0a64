// One library per codec; where it is absent from the build, a file absent_X.cpp stands for it.
#pragma once

#include "base/error.h"
#include "format/codec/codec.h"

namespace deltasane::codec {

extern const bool snappy_built, gzip_built, zstd_built, lz4_built;

// Exactly out.size() bytes, or false.
bool snappy_block(std::span<const std::byte> bytes, std::span<std::byte> out);
bool lz4_block(std::span<const std::byte> bytes, std::span<std::byte> out);

void gzip_stream(std::span<const std::byte> bytes, std::string_view name, const ByteSink& sink);
void zstd_stream(std::span<const std::byte> bytes, std::string_view name, const ByteSink& sink);

}  // namespace deltasane::codec
