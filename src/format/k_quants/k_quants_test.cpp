// Blocks of random bytes against the floats that the package gguf reads from them.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <sstream>

#include "base/io/file.h"
#include "format/dequantize.h"
#include "support/fixture_bytes.h"

namespace deltasane {
namespace {

std::string bytes_of_hexadecimal(const std::string& digits) {
  std::string bytes;
  for (size_t i = 0; i + 1 < digits.size(); i += 2)
    bytes += char(std::stoi(digits.substr(i, 2), nullptr, 16));
  return bytes;
}

TEST(KQuants, AreReadAsThePackageGgufDoes) {
  std::istringstream lines(
      read_file(fs::path(DELTASANE_SOURCE) / "src" / "format" / "k_quants" / "fixture_k_quants.txt"));
  int types = 0;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with('#')) continue;
    std::istringstream fields(line);
    std::string name, block, floats;
    fields >> name >> block >> floats;
    const std::string one = bytes_of_hexadecimal(block), expected = bytes_of_hexadecimal(floats);
    const StoredType type = stored_type_named(name);
    ASSERT_EQ(one.size(), size_t(layout_of(type).bytes)) << name;
    ASSERT_EQ(expected.size(), size_t(layout_of(type).block) * sizeof(float)) << name;
    // Two blocks, the first with other bytes.
    std::string two = one;
    for (char& byte : two) byte = char(~uint8_t(byte));
    const test::Exact exact(two + one);
    std::vector<float> out(2 * size_t(layout_of(type).block), NAN);
    dequantize_to_float(type, exact.span(), out);
    EXPECT_EQ(std::memcmp(out.data() + out.size() / 2, expected.data(), expected.size()), 0)
        << name;
    ++types;
  }
  EXPECT_EQ(types, 7);
}

}  // namespace
}  // namespace deltasane
