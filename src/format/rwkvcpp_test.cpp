#include "format/rwkvcpp.h"

#include <gtest/gtest.h>

#include "format/fixture_tensor_file.h"
#include "support/fixture_bytes.h"
#include "support/errors.h"

namespace deltasane {
namespace {

using test::Bytes;

TensorFile rwkvcpp_from(std::string_view bytes) {
  return read_rwkvcpp(std::as_bytes(std::span(bytes)), "file");
}

Bytes header(int32_t version = 101) {
  Bytes bytes;
  bytes.number(uint32_t{0x67676d66}).number(version);
  for (const int32_t number : {256, 64, 12, 0}) bytes.number(number);
  return bytes;
}

Bytes& record(Bytes& bytes, std::string_view name, int32_t type,
              const std::vector<int32_t>& sizes) {
  bytes.number(int32_t(sizes.size())).number(int32_t(name.size())).number(type);
  for (const int32_t size : sizes) bytes.number(size);
  return bytes.text(name);
}

std::string good_rwkvcpp_file() {
  Bytes bytes = header();
  record(bytes, "a", 0, {3, 2}).floats({1, 2, 3, 4, 5, 6});
  record(bytes, "h", 1, {1, 1, 1}).number(f16(0.5f).bits);
  record(bytes, "q", 7, {32}).number(f16(1).bits).number(uint32_t{0}).text(std::string(16, '\x1f'));
  return bytes.string();
}

TEST(Rwkvcpp, ReadsHeaderAndTensors) {
  const std::string bytes = good_rwkvcpp_file();
  const TensorFile file = rwkvcpp_from(bytes);
  EXPECT_EQ(file.metadata().at("n_layer"), "12");
  EXPECT_EQ(file.metadata().at("data_type"), "f32");
  EXPECT_EQ(file.find("a")->shape, (Shape{2, 3}));
  EXPECT_EQ(file.read(*file.find("a"))[5], 6.0f);
  EXPECT_EQ(file.read(*file.find("h"))[0], 0.5f);
  EXPECT_EQ(file.read(*file.find("q"))[0], -1.0f);
  EXPECT_EQ(file.read(*file.find("q"))[31], -15.0f);
}

TEST(Rwkvcpp, RejectsMalformedRecords) {
  const auto rejected = [](const Bytes& bytes, std::string_view why) {
    EXPECT_FAULT(rwkvcpp_from(bytes.string()), Fault::file, why);
  };
  rejected(Bytes().text("xxxx"), "expected an rwkv.cpp file");
  rejected(header(99), "version 100 or 101");
  Bytes bytes = header();
  rejected(record(bytes, "w", 0, {2147483647, 2147483647, 2147483647}), "fewer than 2^60");
  for (const int32_t type : {4, 5, 6, 10, 12, -1}) {
    bytes = header();
    rejected(record(bytes, "w", type, {32}), cat("found number ", type));
  }
  bytes = header(100);
  rejected(record(bytes, "w", 9, {32}).text(std::string(34, 'x')), "in version 101");
  bytes = header();
  rejected(record(bytes, "w", 0, {-1}), "not negative");
  bytes = header();
  rejected(record(bytes, "w", 9, {16, 2}).text(std::string(34, 'x')), "blocks of 32");
  bytes = header();
  rejected(record(bytes, "", 0, {1}), "name of 1 to 512");
  bytes = header();
  rejected(record(bytes, "w", 0, {1, 1, 1, 1}), "1 to 3 dimensions");
  bytes = header();
  rejected(record(bytes, "w", 0, {2}).number(1.0f), "tensor 'w': expected 8 bytes, found 4");
  bytes = header();
  record(bytes, "w", 0, {1}).number(1.0f);
  rejected(record(bytes, "w", 0, {1}).number(1.0f), "found two");
}

TEST(Rwkvcpp, SurvivesEveryCutAndFlip) {
  const std::string bytes = good_rwkvcpp_file();
  const size_t one_record = header().size() + 12 + 8 + 1 + 24, two = one_record + 12 + 12 + 1 + 2;
  for (size_t length = 0; length < bytes.size(); ++length)
    EXPECT_EQ(test::accepted(bytes.substr(0, length), test::read_all(read_rwkvcpp)),
              length == header().size() || length == one_record || length == two)
        << length;  // the format cannot tell that whole records are missing
  test::expect_every_flip_survived(bytes, bytes.size(), test::read_all(read_rwkvcpp));
}

}  // namespace
}  // namespace deltasane
