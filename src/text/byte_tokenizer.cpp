#include "text/byte_tokenizer.h"

#include <algorithm>
#include <array>

namespace deltasane {
namespace {

constexpr std::array<char, 256> every_byte = [] {
  std::array<char, 256> bytes{};
  for (int i = 0; i < 256; ++i) bytes[size_t(i)] = char(i);
  return bytes;
}();

}  // namespace

std::string_view ByteTokenizer::bytes_of(int32_t id) const {
  if (id < 0 || id > 255) return {};
  return {&every_byte[size_t(id)], 1};
}

void ByteTokenizer::append_encoded(std::string_view text, std::vector<int32_t>& ids) const {
  const size_t before = ids.size();
  ids.resize(before + text.size());
  std::transform(text.begin(), text.end(), ids.begin() + ptrdiff_t(before),
                 [](char c) { return int32_t(uint8_t(c)); });
}

}  // namespace deltasane
