// How much memory there is.
#pragma once

#include <cstdint>
#include <string>

namespace deltasane {

// Of a machine or a GPU; the part that one of `sharing` processes may use.
struct MemorySize {
  uint64_t total = 0, free = 0;
  MemorySize part(int sharing) const { return {total / uint64_t(sharing), free / uint64_t(sharing)}; }
};
MemorySize host_memory_size();  // of the machine, or of the control group where that is less

std::string bytes_text(uint64_t bytes);  // "7.2 GB", "13 MB"

}  // namespace deltasane
