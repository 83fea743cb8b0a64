#include "format/npy/indexed_tokens.h"

#include <gtest/gtest.h>

#include "format/npy/fixture_indexed.h"
#include "support/errors.h"
#include "support/scratch.h"

namespace deltasane {
namespace {

IndexedTokens from(const test::IndexedFiles& files) {
  return {std::as_bytes(std::span(files.index)), "x.idx", std::as_bytes(std::span(files.tokens)),
          "x.bin"};
}

const std::vector<std::vector<uint16_t>> three_items{{1, 2, 0}, {}, {65535, 0}};

TEST(IndexedTokens, AreReadByItemAndAsOneArray) {
  const test::Scratch scratch;
  const test::IndexedFiles files = test::indexed_files(three_items);
  replace_file(scratch.path() / "x.idx", files.index);
  replace_file(scratch.path() / "x.bin", files.tokens);
  for (const char* name : {"x", "x.bin", "x.idx"}) {
    const IndexedTokens opened = IndexedTokens::open(scratch.path() / name);
    ASSERT_EQ(opened.items(), 3);
    EXPECT_EQ(opened.item(1).count, 0);
    EXPECT_EQ(opened.item(2).first, 3);
    std::vector<int32_t> all(5);
    opened.tokens().read(0, all);
    EXPECT_EQ(all, (std::vector<int32_t>{1, 2, 0, 65535, 0}));
  }
}

TEST(IndexedTokens, RejectInconsistentFiles) {
  const test::IndexedFiles good = test::indexed_files(three_items);
  const auto changed = [&](size_t at, char to) {
    test::IndexedFiles files = good;
    files.index[at] = to;
    return files;
  };
  EXPECT_FAULT(from(changed(0, 'X')), Fault::file, "expected an index of tokens");
  EXPECT_FAULT(from(changed(9, 2)), Fault::file, "expected version 1 of the index, found 2");
  EXPECT_FAULT(from(changed(17, 7)), Fault::file, "found 7, floating-point numbers");
  EXPECT_FAULT(from(changed(17, 4)), Fault::file, "item 1: expected it to begin at byte 12");
  EXPECT_FAULT(from(changed(18, 4)), Fault::file, "bytes for 4 items and 4 documents, found");
  EXPECT_FAULT(from(changed(25, 127)), Fault::file, "does not fit in 64 bits");
  EXPECT_FAULT(from(changed(37, char(0x80))), Fault::file, "size -2147483645");
  test::IndexedFiles cut = good;
  cut.tokens.resize(8);
  EXPECT_FAULT(from(cut), Fault::file, "x.bin: expected 10 bytes, as x.idx says, found 8");
  cut = good;
  cut.index.resize(20);
  EXPECT_FAULT(from(cut), Fault::file, "number of items: expected 8 bytes, found 2");
}

}  // namespace
}  // namespace deltasane
