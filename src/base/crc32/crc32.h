// Checksums of 32 bits, bit-reversed, as files carry them.
//
//   crc32   polynomial 0x04C11DB7: zip, gzip, PNG, Parquet
//   crc32c  polynomial 0x1EDC6F41 (Castagnoli): TensorBoard's event files
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace deltasane {

// Of bytes that follow others, whose checksum is `before`.
uint32_t crc32(std::span<const std::byte> bytes, uint32_t before = 0);
uint32_t crc32c(std::span<const std::byte> bytes, uint32_t before = 0);

// The definition of crc32, bit by bit, and the two ways that it chooses from.
uint32_t crc32_reference(std::span<const std::byte> bytes, uint32_t before = 0);
// Eight bytes at a time.
uint32_t crc32_tables(std::span<const std::byte> bytes, uint32_t before = 0);
// With the processor's instruction; none where it has no such instruction.
std::optional<uint32_t> crc32_instruction(std::span<const std::byte> bytes, uint32_t before = 0);

}  // namespace deltasane
