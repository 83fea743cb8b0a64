// rwkv.cpp's .bin: six 32-bit numbers, then records of sizes, name and bytes until the file ends.
// No alignment and no checksum. FP32, FP16, Q4_0, Q4_1, Q5_0, Q5_1 and Q8_0.
#pragma once

#include "format/tensor_file.h"

namespace deltasane {

TensorFile read_rwkvcpp(std::span<const std::byte> bytes, const std::string& name);
TensorFile open_rwkvcpp(const fs::path& path);

}  // namespace deltasane
