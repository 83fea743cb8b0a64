#include "format/parquet/parquet.h"

#include <gtest/gtest.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <set>

#include "format/codec/codec.h"
#include "format/parquet/values.h"
#include "support/errors.h"
#include "support/fixture_bytes.h"
#include "support/process.h"
#include "support/scratch.h"

namespace deltasane {
namespace {

using Json = nlohmann::json;

const fs::path fixtures = fs::path(DELTASANE_SOURCE) / "test/data/parquet";

bool every_column(std::string_view) { return true; }

std::vector<std::string> rows_of(const ParquetFile& file) {
  std::vector<std::string> rows;
  for (size_t group = 0; group < file.groups(); ++group)
    file.read_group(group, every_column, [&](std::string_view row) { rows.emplace_back(row); });
  return rows;
}

std::vector<std::string> lines_of(const fs::path& path) {
  std::vector<std::string> lines;
  const std::string text = read_file(path);
  for (size_t at = 0; at < text.size();) {
    const size_t end = text.find('\n', at);
    lines.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return lines;
}

std::vector<fs::path> parquet_files(const fs::path& folder) {
  std::set<fs::path> files;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder))
    if (entry.path().extension() == ".parquet") files.insert(entry.path());
  return {files.begin(), files.end()};
}

// The codec that a fixture's name tells, where this build does not have it.
bool needs_absent_codec(const fs::path& path) {
  const std::string name = path.stem().string();
  for (const Codec codec : {Codec::snappy, Codec::gzip, Codec::zstd, Codec::lz4})
    if (!has_codec(codec)) {
      const bool named = name.find(name_of(codec)) != name.npos;
      const bool plain = name.find("none") != name.npos || name.find("uncompressed") != name.npos ||
                         name.find("plain") != name.npos || name == "no_columns";
      if (named || (codec == Codec::snappy && !plain)) return true;
    }
  return false;
}

void expect_equal_rows(const fs::path& path) {
  SCOPED_TRACE(path.filename().string());
  const std::vector<std::string> expected = lines_of(fs::path(path).replace_extension("jsonl"));
  std::vector<std::string> found;
  try {
    const ParquetFile file = ParquetFile::open(path);
    EXPECT_EQ(file.rows(), expected.size());
    found = rows_of(file);
  } catch (const Error& error) {
    if (needs_absent_codec(path)) {
      EXPECT_NE(std::string_view(error.what()).find("-dev and build again"), std::string_view::npos)
          << error.what();
      return;
    }
    ADD_FAILURE() << error.what();
  }
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i)
    ASSERT_EQ(Json::parse(found[i]), Json::parse(expected[i])) << "row " << i;
}

TEST(Parquet, ReadsWhatOthersWrote) {
  const std::vector<fs::path> files = parquet_files(fixtures);
  EXPECT_GE(files.size(), 20u);
  for (const fs::path& path : files) expect_equal_rows(path);
}

TEST(Parquet, ReadsWhatOthersWriteNow) {
  if (test::run({"python3", "-c", "import pyarrow, duckdb"}).exit_code != 0)
    GTEST_SKIP() << "python3 has no pyarrow and no DuckDB";
  const test::Scratch scratch;
  const test::Outcome made =
      test::run({"python3", (fixtures / "make.py").string(), scratch.path().string(), "--large"});
  ASSERT_EQ(made.exit_code, 0) << made.output;
  const std::vector<fs::path> files = parquet_files(scratch.path());
  EXPECT_GE(files.size(), 20u);
  for (const fs::path& path : files) expect_equal_rows(path);
}

TEST(Parquet, ReadsOnlyTheWantedColumns) {
  const ParquetFile file = ParquetFile::open(fixtures / "nested_plain_1.parquet");
  EXPECT_EQ(file.columns(), (std::vector<std::string>{"conversations", "messages", "tags", "deep",
                                                      "both", "pairs"}));
  std::vector<Json> rows;
  file.read_group(
      0, [](std::string_view name) { return name == "tags"; },
      [&](std::string_view row) { rows.push_back(Json::parse(row)); });
  const std::vector<std::string> expected = lines_of(fixtures / "nested_plain_1.jsonl");
  ASSERT_EQ(rows.size(), expected.size());
  for (size_t i = 0; i < rows.size(); ++i)
    EXPECT_EQ(rows[i], (Json{{"tags", Json::parse(expected[i])["tags"]}}));
}

// Everything a reader can be made to do with damaged bytes, within bounds of time and room.
struct Damage {
  int rejected = 0, equal = 0, different = 0;
};

Damage read_damaged(const fs::path& path, int files, uint64_t seed) {
  const std::string good = read_file(path);
  const std::vector<std::string> expected = rows_of(ParquetFile::open(path));
  Random random(seed);
  Damage damage;
  for (int i = 0; i < files; ++i) {
    std::string bytes = good;
    if (random.below(4) == 0)
      bytes.resize(random.below(good.size()));
    else
      for (uint64_t flips = 1 + random.below(3); flips > 0; --flips)
        bytes[random.below(good.size())] ^= char(1 << random.below(8));
    const test::Exact exact(bytes);
    const auto begin = std::chrono::steady_clock::now();
    try {
      const std::vector<std::string> found = rows_of(ParquetFile(exact.span(), "file"));
      ++(found == expected ? damage.equal : damage.different);
    } catch (const Error& error) {
      const std::string_view message = error.what();
      EXPECT_EQ(message.substr(0, 4), "file") << message;
      EXPECT_EQ(message.find('\n'), message.npos) << message;
      ++damage.rejected;
    }
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5)) << path << i;
  }
  return damage;
}

TEST(Parquet, SurvivesDamageInEveryVariant) {
  Damage all;
  for (const fs::path& path : parquet_files(fixtures)) {
    if (needs_absent_codec(path)) continue;
    const Damage damage = read_damaged(path, 200, 7);
    all.rejected += damage.rejected;
    all.equal += damage.equal;
    all.different += damage.different;
  }
  EXPECT_GT(all.rejected, all.equal);
  RecordProperty("rejected", all.rejected);
  RecordProperty("equal", all.equal);
  RecordProperty("different", all.different);
}

// Where pages have checksums, damage outside of the footer is never read as something else.
TEST(Parquet, ChecksumsFindDamagedPages) {
  const fs::path path = fixtures / "checked.parquet";
  const std::string good = read_file(path);
  const std::vector<std::string> expected = rows_of(ParquetFile::open(path));
  ByteReader end(std::as_bytes(std::span(good)), "file", good.size() - 8);
  const size_t pages = good.size() - 8 - end.number<uint32_t>("footer");
  int rejected = 0;
  for (size_t at = 4; at < pages; ++at) {
    std::string bytes = good;
    bytes[at] ^= char(1 << (at % 8));
    const test::Exact exact(bytes);
    try {
      EXPECT_EQ(rows_of(ParquetFile(exact.span(), "file")), expected) << "byte " << at;
    } catch (const Error&) {
      ++rejected;
    }
  }
  EXPECT_GT(rejected, int(pages - 4) * 3 / 4);
}

TEST(Parquet, SaysWhetherThereAreChecksums) {
  EXPECT_TRUE(ParquetFile::open(fixtures / "checked.parquet").has_checksums());
  EXPECT_FALSE(ParquetFile::open(fixtures / "nested_plain_1.parquet").has_checksums());
}

TEST(Parquet, RejectsEveryCut) {
  const std::string good = read_file(fixtures / "checked.parquet");
  test::expect_every_cut_rejected(
      good, [](std::span<const std::byte> all) { rows_of(ParquetFile(all, "file")); });
}

TEST(Parquet, NamesWhatItDoesNotRead) {
  const auto rejected = [](const char* name, std::string_view why) {
    EXPECT_FAULT(rows_of(ParquetFile::open(fixtures / "unread" / name)), Fault::file, why);
  };
  rejected("timestamp.parquet", "found timestamp");
  rejected("decimal.parquet", "found decimal");
  rejected("fixed.parquet", "found fixed-length byte array");
  rejected("brotli.parquet", "found Brotli");
  rejected("split.parquet", "found BYTE_STREAM_SPLIT");
  EXPECT_FAULT(ParquetFile::open(fixtures / "make.py"), Fault::file, "expected a Parquet file");
}

// Without the limit, the lengths of 2^40 texts of no bytes would be read.
TEST(Parquet, AFewBytesDoNotPromiseManyValues) {
  const std::string head("\x80\x01\x01\x80\x80\x80\x80\x80\x20\x00", 10);  // 128, 1, 2^40, 0
  const std::string bytes = head + std::string(64, '\0');
  for (const parquet::Encoding encoding :
       {parquet::Encoding::delta_lengths, parquet::Encoding::delta_bytes})
    EXPECT_FAULT(parquet::PageValues(std::as_bytes(std::span(bytes)), parquet::PhysicalType::bytes,
                                     encoding, 1000, nullptr, "page"),
                 Fault::file, "expected at most 1000 values, found 1099511627776");
}

}  // namespace
}  // namespace deltasane
