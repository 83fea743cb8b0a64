// The bytes of a state file; docs/state-file.md has the table.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "infer/state_file.h"

namespace deltasane {

inline constexpr std::string_view state_magic =
    "\x89"
    "DSTAT"
    "\r\n";
inline constexpr uint32_t state_version = 2;
inline constexpr uint32_t uniform_state_version = 1;  // all layers alike; read, no longer written
inline constexpr uint64_t state_prefix = 16;     // magic, version, header length
inline constexpr uint64_t state_checksum = 8;    // after the numbers
inline constexpr uint64_t state_alignment = 64;  // of the numbers in the file
inline constexpr uint64_t max_state_header = 16 << 20;
inline constexpr size_t max_model_name = 4096, max_creator = 256;
inline constexpr int64_t max_state_size = 1 << 20;       // of one dimension, and of layers
inline constexpr int64_t max_cache_rows = int64_t{1} << 40;  // tokens
inline constexpr size_t max_parts = 1 << 16, max_part_name = 64;

inline constexpr uint32_t has_last_token = 1, has_sampler = 2;  // flags

// A part as a file has it. Fails for layers and sizes that are out of range; what cannot be counted
// in 64 bits is never reached.
struct FilePart {
  std::string name;
  StateKind kind = StateKind::memory;
  int64_t layer = 0;
  Shape shape;
  int64_t rows = 1;  // of a cache
};
uint64_t payload_bytes(std::span<const FilePart> parts, std::string_view name);

// Names stand in messages: 1 to 64 bytes of printable ASCII.
bool is_part_name(std::string_view name);

void check_sane(const SaneUse& sane, std::string_view name);

}  // namespace deltasane
