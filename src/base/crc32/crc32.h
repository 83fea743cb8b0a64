// Checksums of 32 bits, bit-reversed, as files carry them.
//
//   crc32   polynomial 0x04C11DB7: zip, gzip, PNG, Parquet
//   crc32c  polynomial 0x1EDC6F41 (Castagnoli): TensorBoard's event files
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace deltasane {

// Of bytes that follow others, whose checksum is `before`.
uint32_t crc32(std::span<const std::byte> bytes, uint32_t before = 0);
uint32_t crc32c(std::span<const std::byte> bytes, uint32_t before = 0);

// crc32 of two runs of bytes together, from that of each. At most 2^61 bytes.
uint32_t crc32_of_both(uint32_t first, uint32_t second, uint64_t second_bytes);

// The definition of crc32, bit by bit.
uint32_t crc32_reference(std::span<const std::byte> bytes, uint32_t before = 0);
// Eight bytes at a time, on any processor. Where it has instructions for it, crc32 uses those
// (ways.h).
uint32_t crc32_tables(std::span<const std::byte> bytes, uint32_t before = 0);

}  // namespace deltasane
