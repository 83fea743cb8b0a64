#include "corpus/rows/row_source.h"

#include <gtest/gtest.h>

#include <fstream>

#include "base/random.h"
#include "corpus/rows/row_index.h"
#include "format/codec/codec.h"
#include "support/errors.h"
#include "support/scratch.h"

namespace deltasane::corpus {
namespace {

const fs::path parquet_fixtures = fs::path(DELTASANE_SOURCE) / "test/data/parquet";
const fs::path shard_fixtures = fs::path(DELTASANE_SOURCE) / "test/data/rows";

std::string all_text(const Source& source) {
  std::string text;
  for (uint64_t i = 0; i < *source.pieces(); ++i) text += source.piece(i).text;
  return text;
}

class Rows : public testing::Test {
 protected:
  fs::path file(const char* name) const { return scratch_.path() / name; }

  // Over 1 MiB, so that an index is kept. Every seventh row has no text.
  std::string large_file() const {
    std::string rows;
    for (int i = 0; i < 40000; ++i)
      rows += i % 7 == 3 ? cat("{\"id\": ", i, "}\n")
                         : cat("{\"text\": \"row ", i, " and more of it\"}\n\n");
    return rows;
  }

  int files_measured(const std::string& description) const {
    int measured = 0;
    open_source(description,
                [&](const std::string&, uint64_t done, uint64_t all) { measured += done == all; });
    return measured;
  }

  test::Scratch scratch_;
};

TEST_F(Rows, OfEveryKindOfFileAreTheSame) {
  const auto plain = open_source(cat("rows:", shard_fixtures / "chats.jsonl"));
  const std::string text = all_text(*plain);
  EXPECT_NE(text.find("User: "), text.npos);
  for (const auto& [name, codec] : {std::pair{"chats.jsonl.zst", Codec::zstd},
                                    {"chats.jsonl.gz", Codec::gzip},
                                    {"chats.parquet", Codec::zstd}}) {
    const std::string description = cat("rows:", shard_fixtures / name);
    if (has_codec(codec))
      EXPECT_EQ(all_text(*open_source(description)), text) << name;
    else
      EXPECT_FAULT(open_source(description), Fault::file, "and build again");
  }
}

TEST_F(Rows, AreCountedAndFilteredByTokens) {
  replace_file(file("a.jsonl"),
               "{\"text\": \"four\"}\n{\"text\": \"twelve bytes\"}\n{}\n{\"text\": \"\"}\n");
  const auto all = open_source(cat("rows:", file("a.jsonl")));
  EXPECT_EQ(all->pieces(), 2u);
  const auto brief = open_source(cat("rows:", file("a.jsonl"), ",tokenizer=byte,length=6"));
  EXPECT_EQ(all_text(*brief), "four\n\n");
  const RowCounts counts = *brief->row_counts();
  EXPECT_EQ(counts.rows, 4u);
  EXPECT_EQ(counts.kept, 1u);
  EXPECT_EQ(counts.dropped, (std::map<std::string, uint64_t>{
                                {"empty", 1}, {"too_long", 1}, {"unknown_columns", 1}}));
  EXPECT_EQ(brief->description(),
            cat("rows:", file("a.jsonl").string(), ",tokenizer=byte,length=6,order=file,seed=1"));
  EXPECT_FAULT(open_source(cat("rows:", file("a.jsonl"), ",length=6")), Fault::usage,
               "expected tokenizer=");
  EXPECT_FAULT(open_source(cat("rows:", file("a.jsonl"), ",tokenizer=byte,length=2")), Fault::file,
               "empty corpus; dropped: 1 empty, 2 too_long, 1 unknown_columns");
}

TEST_F(Rows, OfAFolderAndOfSeveralPathsAreOneSet) {
  fs::create_directories(file("set/deeper"));
  replace_file(file("set/b.jsonl"), "{\"text\": \"b\"}\n");
  replace_file(file("set/deeper/a.jsonl"), "{\"text\": \"a\"}\n");
  replace_file(file("set/README.md"), "{\"text\": \"no\"}\n");
  replace_file(file("c.jsonl"), "{\"text\": \"c\"}\n{\"text\": \"d\"}\n");
  EXPECT_EQ(all_text(*open_source(cat("rows:", file("set")))), "b\n\na\n\n");
  const std::string both =
      cat("rows:\"", file("c.jsonl").string(), "\\n", file("set").string(), "\"");
  const auto source = open_source(both);
  EXPECT_EQ(all_text(*source), "c\n\nd\n\nb\n\na\n\n");
  EXPECT_EQ(all_text(*open_source(source->description())), all_text(*source));
  const auto shuffled = open_source(cat(both, ",order=shuffled,seed=5"));
  EXPECT_EQ(all_text(*shuffled).size(), all_text(*source).size());
  fs::create_directories(file("none"));
  EXPECT_FAULT(open_source(cat("rows:", file("none"))), Fault::file, "expected files .jsonl");
}

TEST_F(Rows, AreReadAsAWholeOnce) {
  replace_file(file("large.jsonl"), large_file());
  const std::string description = cat("rows:", file("large.jsonl"));
  EXPECT_EQ(files_measured(description), 1);
  const auto source = open_source(description);
  EXPECT_EQ(source->pieces(), 40000u - 5714);
  EXPECT_EQ(files_measured(description), 0);
  EXPECT_EQ(files_measured(description + ",tokenizer=byte"), 1);  // other lengths, the same file
  EXPECT_EQ(files_measured(description + ",tokenizer=byte,length=24"), 0);
  EXPECT_EQ(files_measured(description), 0);
  EXPECT_EQ(all_text(*open_source(description)), all_text(*source));
}

TEST_F(Rows, AreReadAgainWhereTheFileChanged) {
  const std::string description = cat("rows:", file("large.jsonl"));
  std::string rows = large_file();
  replace_file(file("large.jsonl"), rows);
  const auto time = fs::last_write_time(file("large.jsonl"));
  EXPECT_EQ(files_measured(description), 1);
  EXPECT_EQ(files_measured(description), 0);
  rows[rows.find("row 0") + 4] = '9';  // of the same size and time
  replace_file(file("large.jsonl"), rows);
  fs::last_write_time(file("large.jsonl"), time);
  EXPECT_EQ(files_measured(description), 1);
  EXPECT_EQ(open_source(description)->piece(0).text, "row 9 and more of it\n\n");
  fs::last_write_time(file("large.jsonl"), time + std::chrono::seconds(1));
  EXPECT_EQ(files_measured(description), 1);
  replace_file(file("large.jsonl"), rows + "{\"text\": \"last\"}");
  EXPECT_EQ(files_measured(description), 1);
}

TEST_F(Rows, DoNotTrustADamagedIndex) {
  const std::string description = cat("rows:", file("large.jsonl"));
  replace_file(file("large.jsonl"), large_file());
  const std::string expected = all_text(*open_source(description));
  const fs::path path = index_path(file("large.jsonl"));
  const std::string good = read_file(path);
  Random random(11);
  for (int round = 0; round < 8; ++round) {
    std::string bytes = good;
    if (round % 4 == 0)
      bytes.resize(random.below(good.size()));
    else
      bytes[random.below(good.size())] ^= char(1 << random.below(8));
    replace_file(path, bytes);
    EXPECT_EQ(files_measured(description), 1) << round;
    EXPECT_EQ(read_file(path), good);
  }
  EXPECT_EQ(all_text(*open_source(description)), expected);
}

TEST_F(Rows, DoNotTrustAnIndexThatLies) {
  const std::string rows = large_file();
  replace_file(file("large.jsonl"), rows);
  const std::span<const std::byte> bytes = std::as_bytes(std::span(rows));
  const auto loads = [&](const RowIndex& index) {
    keep_index(file("large.jsonl"), bytes, index);
    return load_index(file("large.jsonl"), bytes).has_value();
  };
  EXPECT_TRUE(loads({2, {{0, 5}, {9, 5}}, {{7, {1, 2}}}}));
  EXPECT_FALSE(loads({2, {{0, 5}, {4, 5}}, {}}));
  EXPECT_FALSE(loads({2, {{0, 5}, {rows.size() - 4, 5}}, {}}));
  EXPECT_FALSE(loads({2, {{0, 5}, {~uint64_t{0}, 5}}, {}}));
  EXPECT_FALSE(loads({3, {{0, 5}, {9, 5}}, {}}));
  EXPECT_FALSE(loads({uint64_t{1} << 62, {}, {{7, {1, 2}}}}));
  EXPECT_FALSE(loads({3, {}, {{7, {1, 2}}}}));
}

TEST_F(Rows, NeedNoFolderThatCanBeWritten) {
  fs::create_directories(file("locked"));
  replace_file(file("locked/large.jsonl"), large_file());
  fs::create_directories(index_path(file("locked/large.jsonl")));  // in the way, even for root
  const std::string description = cat("rows:", file("locked/large.jsonl"));
  EXPECT_EQ(files_measured(description), 1);
  EXPECT_EQ(files_measured(description), 1);
  EXPECT_EQ(std::distance(fs::directory_iterator(file("locked")), fs::directory_iterator()), 2);
}

TEST_F(Rows, OfABombAreRefused) {
  if (!has_codec(Codec::zstd)) GTEST_SKIP() << "this build has no zstd";
  EXPECT_FAULT(open_source(cat("rows:", shard_fixtures / "bomb.jsonl.zst")), Fault::file,
               "bytes unpacked (1024 for each of the file's), found more");
}

TEST_F(Rows, OfACutFileAreRefused) {
  for (const auto& [name, codec] :
       {std::pair{"chats.jsonl.zst", Codec::zstd}, {"chats.jsonl.gz", Codec::gzip}}) {
    if (!has_codec(codec)) continue;
    std::string bytes = read_file(shard_fixtures / name);
    bytes.resize(bytes.size() - 5);
    replace_file(file(name), bytes);
    EXPECT_FAULT(open_source(cat("rows:", file(name))), Fault::file, "found a cut file");
  }
}

TEST_F(Rows, FillTemplatesFromParquetToo) {
  const auto source = open_source(cat("jsonl:", parquet_fixtures / "flat_none_1.parquet",
                                      ",template=\"{question} {short}\\n\""));
  EXPECT_EQ(source->pieces(), 12u);
  EXPECT_FAULT(open_source(cat("jsonl:", parquet_fixtures / "flat_none_1.parquet",
                               ",template=\"{answer}\\n\"")),
               Fault::file, "expected a text or a number as 'answer', found null");
}

TEST_F(Rows, OfMixturesEndBeforeTheFirstRepeat) {
  replace_file(file("a.jsonl"), "{\"text\": \"1\"}\n{\"text\": \"2\"}\n{\"text\": \"3\"}\n");
  replace_file(file("b.jsonl"), "{\"text\": \"x\"}\n{\"text\": \"y\"}\n");
  const auto source = open_source(
      cat("mixed:1*(rows:", file("a.jsonl"), ")+1*(rows:", file("b.jsonl"), "),by=pieces"));
  const uint64_t end = *source->pieces_before_repeat();
  std::map<std::string, int> seen;
  for (uint64_t i = 0; i < end; ++i) ++seen[source->piece(i).text];
  for (const auto& [text, times] : seen) EXPECT_EQ(times, 1) << text;
  EXPECT_EQ(seen.count(source->piece(end).text), 1u);
  EXPECT_EQ(open_source("mixed:1*(math-chat:)")->pieces_before_repeat(), std::nullopt);
}

}  // namespace
}  // namespace deltasane::corpus
