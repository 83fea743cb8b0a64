#include <gtest/gtest.h>

#include "corpus/source.h"
#include "format/npy/npy.h"
#include "support/errors.h"
#include "support/scratch.h"
#include "text/byte_tokenizer.h"

namespace deltasane::corpus {
namespace {

using Ids = std::vector<int32_t>;

class TokenArray : public testing::Test {
 protected:
  std::string write(const Shape& row, const Ids& ids) {
    NpyWriter writer(path_, StoredType::i32, row);
    writer.append(ids);
    writer.commit();
    return cat("npy:", path_);
  }
  // A version 1 header by hand, for the types that the writer does not write.
  std::string write_as(std::string_view type, std::string_view bytes, size_t count) {
    std::string header =
        cat("{'descr': '", type, "', 'fortran_order': False, 'shape': (", count, ",), }");
    header.append(128 - 10 - 1 - header.size(), ' ');
    std::string file("\x93NUMPY\x01\x00\x76\x00", 10);
    replace_file(path_, cat(file, header, "\n", bytes));
    return cat("npy:", path_);
  }

  test::Scratch scratch_;
  fs::path path_ = scratch_.path() / "tokens.npy";
};

TEST_F(TokenArray, OneDimensionIsSplitAndRepeated) {
  const auto source = open_source(write({}, {1, 2, 3, 4, 5}) + ",piece=2");
  EXPECT_EQ(source->piece(0).tokens, (Ids{1, 2}));
  EXPECT_EQ(source->piece(2).tokens, (Ids{5}));
  EXPECT_EQ(source->piece(3).tokens, (Ids{1, 2}));
  Ids tokens(12);
  std::vector<uint8_t> learned(12);
  const ByteTokenizer tokenizer;
  TokenStream stream(*source, tokenizer);
  stream.read(tokens, learned);
  EXPECT_EQ(tokens, (Ids{1, 2, 3, 4, 5, 1, 2, 3, 4, 5, 1, 2}));
  EXPECT_EQ(learned, std::vector<uint8_t>(12, 1));
}

TEST_F(TokenArray, TwoDimensionsAreRowsWithoutTheirPadding) {
  const std::string spec = write({3}, {1, 2, 0, 4, 0, 6, 0, 0, 0});
  EXPECT_EQ(open_source(spec)->piece(0).tokens, (Ids{1, 2, 0}));
  const auto trimmed = open_source(spec + ",padding=0");
  EXPECT_EQ(trimmed->piece(0).tokens, (Ids{1, 2}));
  EXPECT_EQ(trimmed->piece(1).tokens, (Ids{4, 0, 6}));
  EXPECT_EQ(trimmed->piece(2).tokens, Ids{});
  Ids tokens(6);
  const ByteTokenizer tokenizer;
  TokenStream(*trimmed, tokenizer).read(tokens);
  EXPECT_EQ(tokens, (Ids{1, 2, 4, 0, 6, 1}));
  EXPECT_EQ(open_source(trimmed->description())->description(), trimmed->description());
}

TEST_F(TokenArray, ReadsSixteenAndSixtyFourBits) {
  using namespace std::string_view_literals;
  EXPECT_EQ(open_source(write_as("<u2", "\x01\x00\xFF\xFF"sv, 2))->piece(0).tokens,
            (Ids{1, 65535}));
  EXPECT_EQ(open_source(write_as("<i8", "\x07\0\0\0\0\0\0\0"sv, 1))->piece(0).tokens, (Ids{7}));
  EXPECT_FAULT(open_source(write_as("<f4", "\0\0\0\0"sv, 1)), Fault::file, "expected integers");
  EXPECT_FAULT(open_source(write_as("<i4", ""sv, 0)), Fault::file, "empty corpus");
}

TEST_F(TokenArray, RejectsInvalidOptions) {
  const std::string spec = write({2}, {1, 2, 3, -4});
  EXPECT_FAULT(open_source(spec + ",piece=3"), Fault::usage, "the length of a row");
  EXPECT_FAULT(open_source(spec + ",padding=zero"), Fault::usage, "none or a token id");
  Ids tokens(4);
  const ByteTokenizer tokenizer;
  const auto source = open_source(spec);
  EXPECT_FAULT(TokenStream(*source, tokenizer).read(tokens), Fault::file, "found -4");
}

}  // namespace
}  // namespace deltasane::corpus
