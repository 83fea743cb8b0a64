#include "train/event_file.h"

#include <cstring>

#include "base/crc32/crc32.h"
#include "base/error.h"
#include "base/io/folder.h"

namespace deltasane::train {
namespace {

template <class T>
std::string plain_bytes(T value) {
  std::string bytes(sizeof value, '\0');
  std::memcpy(bytes.data(), &value, sizeof value);
  return bytes;
}

std::string masked_crc(std::string_view bytes) {
  const uint32_t found = crc32c(std::as_bytes(std::span(bytes)));
  return plain_bytes(((found >> 15) | (found << 17)) + 0xA282EAD8u);
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

EventFile::EventFile(const fs::path& folder, double now)
    : path_(folder / cat("events.out.tfevents.", int64_t(now), ".deltasane")) {
  create_folder(folder);
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
