// The two files of an indexed set of 16-bit tokens, byte by byte as RWKV-LM's writer makes them.
#pragma once

#include "support/fixture_bytes.h"

namespace deltasane::test {

struct IndexedFiles {
  std::string index, tokens;
};

inline IndexedFiles indexed_files(const std::vector<std::vector<uint16_t>>& items) {
  Bytes index, tokens;
  index.text("MMIDIDX").number(uint16_t{0}).number(uint64_t{1}).number(uint8_t{8});
  index.number(uint64_t{items.size()}).number(uint64_t{items.size() + 1});
  for (const auto& item : items) index.number(int32_t(item.size()));
  int64_t begin = 0;
  for (const auto& item : items) {
    index.number(begin);
    begin += 2 * int64_t(item.size());
    for (const uint16_t token : item) tokens.number(token);
  }
  for (size_t i = 0; i <= items.size(); ++i) index.number(int64_t(i));
  return {index.string(), tokens.string()};
}

}  // namespace deltasane::test
