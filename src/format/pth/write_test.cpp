// What is written is what our reader and a plain reading of the ZIP format find.
#include <gtest/gtest.h>

#include <cstring>
#include <limits>

#include "base/crc32/crc32.h"
#include "base/io/byte_reader.h"
#include "format/pth/pth.h"
#include "format/pth/zip.h"
#include "format/pth/zip_write.h"
#include "support/errors.h"
#include "support/scratch.h"

namespace deltasane {
namespace {

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

TEST(Crc, IsTheKnownOne) {
  EXPECT_EQ(crc32(bytes_of("123456789")), 0xCBF43926u);
  EXPECT_EQ(crc32c(bytes_of("123456789")), 0xE3069283u);
  EXPECT_EQ(crc32(bytes_of("6789"), crc32(bytes_of("12345"))),
            0xCBF43926u);
  EXPECT_EQ(crc32({}), 0u);
}

TEST(ZipWrite, EntriesComeBackAlignedWithTheirChecksums) {
  const test::Scratch scratch;
  const fs::path path = scratch.path() / "a.zip";
  std::vector<std::pair<std::string, std::string>> all;
  for (size_t i = 0; i < 70; ++i)
    all.emplace_back(cat("folder/", std::string(i, 'n'), "e"),
                     std::string(i * 7 % 50, char('a' + i % 26)));
  {
    AtomicFile file(path);
    ZipWriter zip(file);
    for (const auto& [name, bytes] : all) zip.add(name, bytes);
    zip.finish();
    file.commit();
  }
  const MappedFile map(path);
  const auto entries = read_zip(map.bytes(), "a.zip");
  ASSERT_EQ(entries.size(), all.size());
  for (size_t i = 0; i < all.size(); ++i) {
    EXPECT_EQ(entries[i].name, all[i].first);
    EXPECT_EQ(entries[i].offset % 64, 0u);
    ASSERT_EQ(entries[i].bytes.size(), all[i].second.size());
    EXPECT_EQ(std::memcmp(entries[i].bytes.data(), all[i].second.data(), all[i].second.size()), 0);
  }
  // The local header of the first entry, as it lies.
  ByteReader reader(map.bytes(), "a.zip");
  EXPECT_EQ(reader.number<uint32_t>("signature"), 0x04034b50u);
  reader.take(10, "up to the checksum");
  EXPECT_EQ(reader.number<uint32_t>("checksum"), crc32(bytes_of(all[0].second)));
}

TEST(PthWrite, TensorsOfEveryTypeComeBack) {
  const test::Scratch scratch;
  const fs::path path = scratch.path() / "a.pth";
  const std::vector<PlannedTensor> plan{
      {"matrix", StoredType::f32, {3, 5}},    {"half", StoredType::f16, {7}},
      {"brain", StoredType::bf16, {1, 1, 4}}, {"double", StoredType::f64, {1}},
      {"long", StoredType::i64, {2}},         {"empty", StoredType::f32, {0, 4}}};
  const auto content = [](const PlannedTensor& tensor) {
    std::string bytes;
    for (uint64_t i = 0; i < tensor.bytes(); ++i) bytes += char(i * 5 + tensor.name.size());
    return bytes;
  };
  write_pth(path, plan, [&](const PlannedTensor& tensor, const Sink& sink) {
    const std::string bytes = content(tensor);
    const size_t half = bytes.size() / 2;
    sink(bytes_of(bytes).first(half));
    sink(bytes_of(bytes).subspan(half));
  });
  const TensorFile file = open_pth(path);
  ASSERT_EQ(file.tensors().size(), plan.size());
  for (size_t i = 0; i < plan.size(); ++i) {
    const StoredTensor& found = file.tensors()[i];
    EXPECT_EQ(found.name, plan[i].name);
    EXPECT_EQ(found.type, plan[i].type);
    EXPECT_EQ(found.shape, plan[i].shape);
    const std::string bytes = content(plan[i]);
    ASSERT_EQ(found.bytes.size(), bytes.size());
    EXPECT_EQ(std::memcmp(found.bytes.data(), bytes.data(), bytes.size()), 0) << found.name;
  }
  EXPECT_FAULT(write_pth(path, {{"q", StoredType::q8_0, {32}}}, {}), Fault::argument,
               "expected f64, f32, f16, bf16 or i64");
}

}  // namespace
}  // namespace deltasane
