#include "probe/record_file.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <xxhash.h>

#include <csignal>
#include <cstring>
#include <limits>

#include "base/random.h"
#include "support/errors.h"
#include "support/scratch.h"

namespace deltasane::probe {
namespace {

const RecordHeader example_header{
    "example",
    {{"position", ColumnType::integer}, {"loss", ColumnType::real}, {"norm", ColumnType::real}},
    {{"model", "small"}, {"corpus", "math-chat:seed=1"}, {"heads", "12"}, {"layers", "0"}}};

void write_group(RecordWriter& writer, int64_t group, int64_t rows) {
  for (int64_t i = 0; i < rows; ++i) {
    writer.add(group * 1000 + i);
    writer.add(double(group) / 3);
    writer.add(double(i) * 1e300);
  }
  writer.append();
}

std::string three_groups(const fs::path& path) {
  RecordWriter writer(path, example_header);
  for (const int64_t group : {1, 2, 3}) write_group(writer, group, group);
  return read_file(path);
}

RecordTable table_of(std::string_view text) {
  return read_records(std::as_bytes(std::span(text)), "records");
}

TEST(RecordFile, ComesBackAsItWasWritten) {
  const test::Scratch scratch;
  const RecordTable table = table_of(three_groups(scratch.path() / "r"));
  EXPECT_EQ(table.header, example_header);
  EXPECT_EQ(table.rows, 6);
  EXPECT_EQ(table.lost_bytes, 0u);
  EXPECT_EQ(table.integers("position"), (std::vector<int64_t>{1000, 2000, 2001, 3000, 3001, 3002}));
  EXPECT_EQ(table.reals("loss")[3], 1.0);
  EXPECT_EQ(table.reals("norm")[5], 2e300);
  EXPECT_EQ(table.setting("model"), "small");
  EXPECT_FAULT(table.reals("position"), Fault::file, "expected a column 'position'");
  EXPECT_FAULT(table.setting("seed"), Fault::file, "expected a setting 'seed'");
  EXPECT_EQ(table.count_setting("heads"), 12);
  for (const char* key : {"layers", "model"})
    EXPECT_FAULT(table.count_setting(key), Fault::file, "expected 1 to 1048576");
  EXPECT_EQ(csv_of(table).substr(0, 60),
            "position,loss,norm\n1000,0.3333333333333333,0\n2000,0.66666666");
}

TEST(RecordFile, IsTheSameWhenItIsCutBackAndWrittenAgain) {
  const test::Scratch scratch;
  const fs::path path = scratch.path() / "r";
  const std::string whole = three_groups(path);
  uint64_t first_group = 0;
  {
    RecordWriter writer(path, example_header);
    write_group(writer, 1, 1);
    first_group = writer.bytes();
    write_group(writer, 9, 4);
  }
  RecordWriter writer(path, example_header, first_group);
  write_group(writer, 2, 2);
  write_group(writer, 3, 3);
  writer.flush();
  EXPECT_EQ(read_file(path), whole);
  EXPECT_EQ(writer.bytes(), whole.size());
}

TEST(RecordFile, KeepsTheIntactGroupsOfAFileCutAnywhere) {
  const test::Scratch scratch;
  const std::string whole = three_groups(scratch.path() / "r");
  const size_t header = table_of(whole).intact_bytes - 3 * 16 - 6 * 24;
  for (size_t size = 0; size < whole.size(); ++size) {
    const std::string part = whole.substr(0, size);
    if (size < header) {
      EXPECT_FAULT(table_of(part), Fault::file, "records: ");
      continue;
    }
    const RecordTable table = table_of(part);
    EXPECT_EQ(table.intact_bytes + table.lost_bytes, size);
    EXPECT_EQ(table.lost_bytes == 0, table.damage.empty());
    EXPECT_TRUE(table.rows == 0 || table.rows == 1 || table.rows == 3) << size;
  }
}

TEST(RecordFile, NoticesEveryChangedByte) {
  const test::Scratch scratch;
  const std::string whole = three_groups(scratch.path() / "r");
  for (size_t at = 0; at < whole.size(); ++at)
    for (const int change : {1, 0x80}) {
      std::string damaged = whole;
      damaged[at] = char(damaged[at] ^ change);
      try {
        const RecordTable table = table_of(damaged);
        EXPECT_LT(table.rows, 6) << at;
        EXPECT_GT(table.lost_bytes, 0u) << at;
        EXPECT_NE(table.damage.find("records: at byte"), std::string::npos) << table.damage;
      } catch (const Error& error) {
        EXPECT_EQ(error.fault(), Fault::file);
      }
    }
}

TEST(RecordFile, SurvivesRandomBytes) {
  const test::Scratch scratch;
  const std::string whole = three_groups(scratch.path() / "r");
  Random random(3);
  for (int round = 0; round < 2000; ++round) {
    std::string bytes = whole.substr(0, random.below(whole.size()));
    for (uint64_t i = random.below(9); i > 0 && !bytes.empty(); --i)
      bytes[random.below(bytes.size())] = char(random.below(256));
    try {
      EXPECT_LE(table_of(bytes).rows, 6);
    } catch (const Error& error) {
      EXPECT_EQ(error.fault(), Fault::file);
    }
  }
}

const RecordHeader bytes_header{
    "bytes",
    {{"position", ColumnType::integer}, {"codes", ColumnType::bytes}, {"norm", ColumnType::real}},
    {}};

std::string groups_of_bytes(const fs::path& path) {
  RecordWriter writer(path, bytes_header);
  for (const char* codes : {"abc", "", "de"}) {
    writer.add(int64_t(7));
    writer.add(std::string(codes));
    writer.add(0.5);
    if (codes[0] != 'a') writer.append();
  }
  return read_file(path);
}

TEST(RecordFile, HasColumnsOfBytes) {
  const test::Scratch scratch;
  const std::string whole = groups_of_bytes(scratch.path() / "r");
  EXPECT_EQ(whole[8], 2);  // the version
  EXPECT_EQ(three_groups(scratch.path() / "numbers")[8], 1);
  const RecordTable table = table_of(whole);
  EXPECT_EQ(table.rows, 3);
  EXPECT_EQ(table.bytes("codes"), (std::vector<std::string>{"abc", "", "de"}));
  EXPECT_EQ(table.reals("norm"), (std::vector<double>{0.5, 0.5, 0.5}));
  EXPECT_EQ(csv_of(table), "position,codes,norm\n7,616263,0.5\n7,,0.5\n7,6465,0.5\n");
  for (size_t size = whole.size() - 80; size < whole.size(); ++size) {
    const RecordTable cut = table_of(whole.substr(0, size));
    EXPECT_LT(cut.rows, 3);
    EXPECT_EQ(cut.bytes("codes").size(), size_t(cut.rows));
    EXPECT_EQ(cut.damage.empty(), cut.lost_bytes == 0);
  }
}

// A group whose checksum is right and whose lengths are not.
TEST(RecordFile, BytesBeyondTheirGroupAreDamage) {
  const test::Scratch scratch;
  std::string bytes = groups_of_bytes(scratch.path() / "r");
  const size_t group = 16 + 8 + 4 + 2 + 8 + 8;  // the last: prefix, one row, checksum
  const size_t length = bytes.size() - group + 16 + 8;
  ASSERT_EQ(bytes[length], 2);
  for (const char wrong : {1, 3, 127}) {
    bytes[length] = wrong;
    const uint64_t sum = XXH3_64bits(bytes.data() + bytes.size() - group, group - 8);
    std::memcpy(bytes.data() + bytes.size() - 8, &sum, sizeof sum);
    const RecordTable table = table_of(bytes);
    EXPECT_EQ(table.rows, 2);
    EXPECT_EQ(table.bytes("codes").size(), 2u);
    EXPECT_EQ(table.lost_bytes, group);
    EXPECT_NE(table.damage.find("do not have its size"), std::string::npos) << table.damage;
  }
}

TEST(RecordFile, AFullDiskLeavesWholeGroups) {
  const test::Scratch scratch;
  const fs::path path = scratch.path() / "r";
  RecordWriter writer(path, example_header);
  write_group(writer, 1, 1);
  struct rlimit before;
  getrlimit(RLIMIT_FSIZE, &before);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const struct rlimit tight { writer.bytes() + 20, before.rlim_max };
  setrlimit(RLIMIT_FSIZE, &tight);
  EXPECT_FAULT(write_group(writer, 2, 2), Fault::file, "cannot write");
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  const RecordTable table = read_records(path);
  EXPECT_EQ(table.rows, 1);
  EXPECT_EQ(table.lost_bytes, 0u);
}

}  // namespace
}  // namespace deltasane::probe
