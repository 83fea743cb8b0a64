#include "format/pth/zip.h"

#include <gtest/gtest.h>

#include "format/pth/fixture_pth.h"
#include "support/errors.h"

namespace deltasane {
namespace {

using test::Zip64;
using test::zip_of;

std::vector<ChecksummedBytes> zip_from(std::string_view bytes) {
  return read_zip(std::as_bytes(std::span(bytes)), "file");
}

TEST(Zip, FindsStoredEntries) {
  for (const Zip64 zip64 : {Zip64::no, Zip64::yes}) {
    const std::string bytes = zip_of({{"m/a", "hello"}, {"m/b/c", ""}}, zip64);
    const std::vector<ChecksummedBytes> entries = zip_from(bytes);
    ASSERT_EQ(entries.size(), 2u);
    EXPECT_EQ(entries[0].name, "m/a");
    EXPECT_EQ(bytes.substr(entries[0].offset, entries[0].bytes.size()), "hello");
    EXPECT_EQ(entries[0].offset % 64, 0u);
    EXPECT_TRUE(entries[1].bytes.empty());
  }
}

TEST(Zip, RejectsCompressionAndEncryption) {
  EXPECT_FAULT(zip_from(zip_of({{"a", "x", 8}})), Fault::file, "compression method 8");
  EXPECT_FAULT(zip_from(zip_of({{"a", "x", 0, 0x0809}})), Fault::file, "no encryption");
}

TEST(Zip, RejectsNamesThatLeaveTheArchive) {
  for (const char* const name : {"../a", "m/../../a", "/a", "m//a", "m/", "", ".", "m\\a", "m/.."})
    EXPECT_FAULT(zip_from(zip_of({{name, "x"}})), Fault::file, "plain relative entry name");
  EXPECT_FAULT(zip_from(zip_of({{std::string("a\0b", 3), "x"}})), Fault::file, "plain relative");
  EXPECT_FAULT(zip_from(zip_of({{std::string(600, 'a'), "x"}})), Fault::file, "at most 512");
}

TEST(Zip, RejectsRepeatedNames) {
  EXPECT_FAULT(zip_from(zip_of({{"a", "x"}, {"a", "y"}})), Fault::file, "entry 'a'");
}

TEST(Zip, RejectsOverlap) {
  // Both rows of the directory name the first local header, as an overlap bomb does.
  test::ZipPiece second{"b", "y"};
  second.local_offset = 0;
  EXPECT_FAULT(zip_from(zip_of({{"a", "x"}, second})), Fault::file, "local header");
  second.name = "b";
  second.stated_size = 1;
  test::ZipPiece first{"a", std::string(200, 'x')};
  first.stated_size = first.local_size = 250;  // reaches into the next entry
  first.flags = 0;
  first.checksum = first.local_checksum = 7;
  EXPECT_FAULT(zip_from(zip_of({first, {"b", std::string(200, 'y')}})), Fault::file, "overlap");
}

TEST(Zip, RejectsWrongSizes) {
  test::ZipPiece piece{"a", "hello"};
  piece.stated_size = 5000;
  EXPECT_FAULT(zip_from(zip_of({piece})), Fault::file, "expected 5000 bytes");
  piece = {"a", "hello"};
  piece.local_size = 6;
  EXPECT_FAULT(zip_from(zip_of({piece})), Fault::file, "directory's size 5");
  piece.local_size = 5;
  EXPECT_EQ(zip_from(zip_of({piece})).size(), 1u);
  piece = {"a", "hello"};
  piece.local_name = "z";
  EXPECT_FAULT(zip_from(zip_of({piece})), Fault::file, "repeats the directory");
  piece = {"a", "hello"};
  piece.local_offset = 0x7fffffff;
  EXPECT_FAULT(zip_from(zip_of({piece})), Fault::file, "inside the file");
  piece.stated_size = 0xffffffff;  // asks for a 64-bit size that is not there
  EXPECT_FAULT(zip_from(zip_of({piece})), Fault::file, "file: ");
}

TEST(Zip, RejectsHeadersThatContradictTheDirectory) {
  test::ZipPiece piece{"a", "hello"};
  piece.local_checksum = 7;
  EXPECT_FAULT(zip_from(zip_of({piece})), Fault::file, "directory's checksum");
  piece = {"a", "hello"};
  piece.descriptor_size = 6;
  EXPECT_FAULT(zip_from(zip_of({piece})), Fault::file, "descriptor that repeats the directory");
  piece = {"a", "hello"};
  piece.flags = 0;  // no descriptor: nothing may be left out of the local header
  EXPECT_FAULT(zip_from(zip_of({piece})), Fault::file, "directory's size 5");
  piece.local_size = 5;
  EXPECT_FAULT(zip_from(zip_of({piece})), Fault::file, "directory's checksum");
  piece.local_checksum = 0x3610a686;  // of "hello"
  EXPECT_EQ(zip_from(zip_of({piece})).size(), 1u);
  piece.local_size = 0xffffffff;  // no 64-bit size says what it is
  EXPECT_FAULT(zip_from(zip_of({piece})), Fault::file, "directory's size 5");
}

TEST(Zip, SaysWhetherThereAreChecksums) {
  test::ZipPiece none{"a", "hello"};
  none.checksum = 0;
  EXPECT_FALSE(states_checksums(zip_from(zip_of({none}))));
  const auto entries = zip_from(zip_of({none, {"b", "hello"}}));
  EXPECT_TRUE(states_checksums(entries));
  EXPECT_EQ(entries[1].checksum, 0x3610a686u);
}

TEST(Zip, RejectsBytesAroundTheArchive) {
  const std::string good = zip_of({{"a", "hello"}});
  EXPECT_FAULT(zip_from(good + "x"), Fault::file, "end record in the last 22 bytes");
  EXPECT_FAULT(zip_from("x" + good), Fault::file, "file: ");
  EXPECT_FAULT(zip_from(""), Fault::file, "at least 22 bytes");
}

TEST(Zip, RejectsEveryCutAndSurvivesEveryFlip) {
  for (const Zip64 zip64 : {Zip64::no, Zip64::yes}) {
    const std::string bytes = zip_of({{"m/a", "hello"}, {"m/b", "you"}}, zip64);
    const auto reader = [](std::span<const std::byte> all) { read_zip(all, "file"); };
    test::expect_every_cut_rejected(bytes, reader);
    test::expect_every_flip_survived(bytes, bytes.size(), reader);
  }
}

}  // namespace
}  // namespace deltasane
