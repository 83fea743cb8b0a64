#include "train/event_file.h"

#include <array>
#include <cstring>

#include "base/error.h"

namespace deltasane::train {
namespace {

constexpr std::array<uint32_t, 256> crc_table = [] {
  std::array<uint32_t, 256> table{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ (crc & 1 ? 0x82F63B78u : 0u);
    table[i] = crc;
  }
  return table;
}();

template <class T>
std::string plain_bytes(T value) {
  std::string bytes(sizeof value, '\0');
  std::memcpy(bytes.data(), &value, sizeof value);
  return bytes;
}

std::string masked_crc(std::string_view bytes) {
  const uint32_t crc = crc32c(bytes);
  return plain_bytes(((crc >> 15) | (crc << 17)) + 0xA282EAD8u);
}

std::string varint(uint64_t value) {
  std::string bytes;
  for (; value >= 128; value >>= 7) bytes += char(value | 128);
  return bytes + char(value);
}

enum class Wire { varint = 0, eight = 1, sized = 2, four = 5 };

std::string field(int number, Wire wire, std::string_view content) {
  std::string bytes(1, char(number << 3 | int(wire)));
  if (wire == Wire::sized) bytes += varint(content.size());
  return bytes + std::string(content);
}

}  // namespace

uint32_t crc32c(std::string_view bytes) {
  uint32_t crc = ~0u;
  for (const char c : bytes) crc = crc_table[(crc ^ uint8_t(c)) & 255] ^ (crc >> 8);
  return ~crc;
}

EventFile::EventFile(const fs::path& folder, double now)
    : path_(folder / cat("events.out.tfevents.", int64_t(now), ".deltasane")) {
  fs::create_directories(folder);
  for (int again = 1; fs::exists(path_); ++again)
    path_ = folder / cat("events.out.tfevents.", int64_t(now), ".deltasane.", again);
  file_.open(path_, std::ios::binary);
  write(field(1, Wire::eight, plain_bytes(now)) + field(3, Wire::sized, "brain.Event:2"));
}

void EventFile::add(double now, int64_t step, std::string_view name, float value) {
  const std::string number = field(1, Wire::sized, name) + field(2, Wire::four, plain_bytes(value));
  write(field(1, Wire::eight, plain_bytes(now)) + field(2, Wire::varint, varint(uint64_t(step))) +
        field(5, Wire::sized, field(1, Wire::sized, number)));
}

// Figures for looking at: a full disk must not end a run, so writing may fail in silence.
void EventFile::write(const std::string& event) {
  const std::string length = plain_bytes(uint64_t{event.size()});
  file_ << length << masked_crc(length) << event << masked_crc(event) << std::flush;
}

}  // namespace deltasane::train
