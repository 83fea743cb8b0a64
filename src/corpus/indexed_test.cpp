#include "corpus/indexed.h"

#include <gtest/gtest.h>

#include <set>

#include "base/io/file.h"
#include "format/npy/fixture_indexed.h"
#include "support/errors.h"
#include "support/scratch.h"
#include "text/byte_tokenizer.h"

namespace deltasane::corpus {
namespace {

using Ids = std::vector<int32_t>;

class Indexed : public testing::Test {
 protected:
  std::string write(const std::vector<std::vector<uint16_t>>& items) const {
    const deltasane::test::IndexedFiles files = deltasane::test::indexed_files(items);
    replace_file(scratch_.path() / "x.idx", files.index);
    replace_file(scratch_.path() / "x.bin", files.tokens);
    return cat("binidx:", (scratch_.path() / "x").string());
  }
  deltasane::test::Scratch scratch_;
};

TEST_F(Indexed, PiecesAreItemsOrFixedLengths) {
  const std::string spec = write({{1, 2, 0}, {3, 0}, {4, 5, 6, 0}});
  const auto items = open_source(spec);
  EXPECT_EQ(items->pieces(), 3u);
  EXPECT_EQ(items->piece(1).tokens, (Ids{3, 0}));
  EXPECT_EQ(items->piece(5).tokens, (Ids{4, 5, 6, 0}));
  const auto cut = open_source(spec + ",piece=4");
  EXPECT_EQ(cut->pieces(), 3u);
  EXPECT_EQ(cut->piece(1).tokens, (Ids{0, 4, 5, 6}));
  EXPECT_EQ(cut->piece(2).tokens, (Ids{0}));
  Ids tokens(11);
  const ByteTokenizer tokenizer;
  TokenStream(*items, tokenizer).read(tokens);
  EXPECT_EQ(tokens, (Ids{1, 2, 0, 3, 0, 4, 5, 6, 0, 1, 2}));
  const auto shuffled = open_source(spec + ",order=shuffled,seed=7");
  std::set<Ids> seen;
  for (uint64_t i = 6; i < 9; ++i) seen.insert(shuffled->piece(i).tokens);
  EXPECT_EQ(seen.size(), 3u);
  EXPECT_EQ(open_source(shuffled->description())->description(), shuffled->description());
}

// The numbers of RWKV-LM's own run on MiniPile.
TEST_F(Indexed, SamplesComeInTheOrderOfRwkvLm) {
  constexpr uint64_t mini_pile = 1'498'226'207;
  EXPECT_EQ(sample_prime(mini_pile / 4096), 365'759u);
  const uint64_t prime = sample_prime(mini_pile / 512);
  EXPECT_EQ(prime, 2'926'181u);
  EXPECT_EQ(sample_context(0, prime) * 512, 925'941'248u);
  EXPECT_EQ(sample_context(1, prime) * 512, 1'414'711'296u);
  EXPECT_EQ(sample_context(2, prime) * 512, 1'029'138'944u);

  std::vector<uint16_t> row(40);
  for (size_t i = 0; i < row.size(); ++i) row[i] = uint16_t(i);
  const auto source = open_source(write({row}) + ",piece=3,order=rwkv-lm");
  ASSERT_EQ(source->pieces(), 11u);  // of 13 contexts
  std::set<int32_t> begins;
  for (uint64_t i = 0; i < 11; ++i) {
    const Ids sample = source->piece(i).tokens;
    ASSERT_EQ(sample.size(), 4u);
    EXPECT_EQ(sample[3], sample[0] + 3);
    EXPECT_EQ(sample[0] % 3, 0);
    begins.insert(sample[0]);
  }
  EXPECT_EQ(begins.size(), 11u);
  EXPECT_EQ(source->piece(11).tokens, source->piece(0).tokens);
}

TEST_F(Indexed, RejectsInvalidOptions) {
  const std::string spec = write({{1, 2, 0}});
  EXPECT_FAULT(open_source(spec + ",piece=none"), Fault::usage, "expected items or a number");
  EXPECT_FAULT(open_source(spec + ",order=rwkv-lm"), Fault::usage, "expected piece=N");
  EXPECT_FAULT(open_source(spec + ",order=rwkv-lm,piece=2"), Fault::file,
               "expected at least 3 times 2 tokens, found 3");
  EXPECT_FAULT(open_source(write({})), Fault::file, "found an empty corpus");
  EXPECT_FAULT(open_source("binidx:nowhere"), Fault::file, "nowhere.idx");
}

}  // namespace
}  // namespace deltasane::corpus
