#include "format/npy/npy.h"

#include <gtest/gtest.h>

#include <numeric>

#include "support/errors.h"
#include "support/fixture_bytes.h"
#include "support/scratch.h"

namespace deltasane {
namespace {

using test::Bytes;

std::string npy_file_of(std::string_view header, std::string_view elements, uint8_t version = 1) {
  Bytes bytes;
  bytes.text("\x93NUMPY").number(version).number(uint8_t{0});
  if (version == 1)
    bytes.number(uint16_t(header.size()));
  else
    bytes.number(uint32_t(header.size()));
  return bytes.text(header).text(elements).string();
}

std::string header_of(std::string_view descr, std::string_view shape) {
  return cat("{'descr': '", descr, "', 'fortran_order': False, 'shape': ", shape, ", }   \n");
}

NpyArray npy_from(std::string_view bytes) {
  return read_npy(std::as_bytes(std::span(bytes)), "file");
}

int32_t integer(std::string_view descr, std::string_view element) {
  const std::string bytes = npy_file_of(header_of(descr, "()"), element);
  int32_t out = 0;
  npy_from(bytes).read(0, std::span(&out, 1));
  return out;
}

TEST(Npy, ReadsEveryKindOfNumber) {
  EXPECT_EQ(integer("<i2", Bytes().number(int16_t{-5}).string()), -5);
  EXPECT_EQ(integer("<i4", Bytes().number(int32_t{-5}).string()), -5);
  EXPECT_EQ(integer("<i8", Bytes().number(int64_t{-5}).string()), -5);
  EXPECT_EQ(integer("|u1", "\xff"), 255);
  EXPECT_EQ(integer("<u2", "\xff\xff"), 65535);
  EXPECT_EQ(integer("<u4", Bytes().number(uint32_t{7}).string()), 7);
  for (const auto& [descr, element] :
       {std::pair<std::string_view, std::string>{"<f2", Bytes().number(f16(1.5f).bits).string()},
        {"<f4", Bytes().number(1.5f).string()},
        {"<f8", Bytes().number(1.5).string()}}) {
    const std::string bytes = npy_file_of(header_of(descr, "(1,)"), element, 2);
    float out = 0;
    npy_from(bytes).read(0, std::span(&out, 1));
    EXPECT_EQ(out, 1.5f);
  }
}

TEST(Npy, ReadsShapesAndSlices) {
  const std::string bytes =
      npy_file_of("{\"shape\":(2,3),\"descr\":\"<u2\",\"fortran_order\":False}",
                  std::string_view("a\0b\0c\0d\0e\0f\0", 12));
  const NpyArray array = npy_from(bytes);
  EXPECT_EQ(array.shape, (Shape{2, 3}));
  std::vector<int32_t> row(3);
  array.read(3, row);
  EXPECT_EQ(row, (std::vector<int32_t>{'d', 'e', 'f'}));
}

TEST(Npy, RejectsUnsupportedArrays) {
  const auto rejected = [](std::string_view header, std::string_view why) {
    EXPECT_FAULT(npy_from(npy_file_of(header, "1234")), Fault::file, why);
  };
  rejected(header_of("|O", "(1,)"), "found '|O'");
  rejected(header_of(">f4", "(1,)"), "found '>f4'");
  rejected(header_of("|V2", "(2,)"), "found '|V2'");
  rejected(header_of("<f4", "(2,)"), "expected 8 bytes");
  rejected(header_of("<f4", "(-1,)"), "expected a size");
  rejected(header_of("<f4", "(99999999999999999999,)"), "expected a size");
  rejected(header_of("<f4", "(4294967296,4294967296)"), "fewer than 2^60");
  rejected(header_of("<f4", "(0,9223372036854775807,9)"), "fewer than 2^60");
  rejected(header_of("<f4", "(1,1,1,1,1,1,1)"), "at most 6");
  rejected("{'descr': '<f4', 'fortran_order': True, 'shape': (1,), }", "C order");
  rejected("{'descr': '<f4', 'fortran_order': False, }", "expected descr");
  rejected("{'descr': '<f4', 'descr': '<f4', }", "once each");
  rejected("{'descr': '<f4', 'fortran_order': False, 'shape': (1,), 'x': 1}", "once each");
  rejected(cat(header_of("<f4", "(1,)"), "x"), "nothing after");
  rejected("{'descr': '<f4", "end of a string");
  rejected("", "expected '{'");
  EXPECT_FAULT(npy_from(npy_file_of(std::string(20'000, ' '), "")), Fault::file, "at most 10000");
  EXPECT_FAULT(npy_from(npy_file_of(header_of("<f4", "(1,)"), "1234", 4)), Fault::file,
               "version 1, 2 or 3");
  EXPECT_FAULT(npy_from("PK"), Fault::file, "file: ");
  EXPECT_FAULT(integer("<i8", Bytes().number(int64_t{1} << 40).string()), Fault::file, "32 bits");
  EXPECT_FAULT(integer("<f4", "1234"), Fault::file, "array of integers");
}

TEST(Npy, RejectsEveryCutAndSurvivesEveryFlip) {
  const std::string bytes = npy_file_of(header_of("<f4", "(2, 1)"), "12345678");
  const auto reader = [](std::span<const std::byte> all) {
    const NpyArray array = read_npy(all, "file");
    std::vector<float> out(size_t(array.shape.elements()));
    array.read(0, out);
  };
  test::expect_every_cut_rejected(bytes, reader);
  test::expect_every_flip_survived(bytes, bytes.size(), reader);
}

TEST(Npy, RoundTrips) {
  const test::Scratch scratch;
  const fs::path path = scratch.path() / "array.npy";
  NpyWriter writer(path, StoredType::i32, {4, 2});
  std::vector<int32_t> values(24);
  std::iota(values.begin(), values.end(), -12);
  writer.append(std::span<const int32_t>(values).first(13));
  writer.append(std::span<const int32_t>(values).subspan(13));
  EXPECT_EQ(writer.rows(), 3);
  EXPECT_FALSE(fs::exists(path));
  writer.commit();
  const NpyArray array = open_npy(path);
  EXPECT_EQ(array.shape, (Shape{3, 4, 2}));
  EXPECT_EQ(reinterpret_cast<uintptr_t>(array.bytes.data()) % 64, 0u);
  std::vector<int32_t> back(24);
  array.read(0, back);
  EXPECT_EQ(back, values);
}

TEST(Npy, WritesFloatsInOneDimension) {
  const test::Scratch scratch;
  NpyWriter writer(scratch.path() / "array.npy", StoredType::f32, {});
  const std::vector<float> values{1, -2.5f, 3e-40f};
  writer.append(std::span<const float>(values));
  writer.commit();
  const NpyArray array = open_npy(scratch.path() / "array.npy");
  EXPECT_EQ(array.shape, (Shape{3}));
  std::vector<float> back(3);
  array.read(0, back);
  EXPECT_EQ(back, values);
}

}  // namespace
}  // namespace deltasane
