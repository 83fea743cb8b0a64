#include "corpus/text_files.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "base/io/file.h"
#include "base/random.h"
#include "corpus/shuffle.h"
#include "support/errors.h"
#include "support/scratch.h"
#include "text/utf8.h"

namespace deltasane::corpus {
namespace {

// Words, lines, paragraphs and long runs without any of them.
std::string made_text(uint64_t seed, size_t size) {
  Random random(seed);
  std::string text;
  while (text.size() < size) {
    constexpr std::string_view parts[] = {"word", "文字", " ", " ", "\n", "\n\n", "-"};
    const std::string_view part = parts[random.below(std::size(parts))];
    for (uint64_t n = random.below(20) == 0 ? 40 : 1; n > 0; --n) text += part;
  }
  return text;
}

TEST(Shuffle, IsAPermutationThatDiffersByEpochAndSeed) {
  for (const uint64_t size : {1, 2, 3, 5, 16, 17, 1000}) {
    std::set<uint64_t> seen;
    for (uint64_t i = 0; i < size; ++i) seen.insert(shuffled(i, size, 7, 2));
    EXPECT_EQ(seen.size(), size);
    EXPECT_EQ(*seen.rbegin(), size - 1);
  }
  int same_epoch = 0, same_seed = 0;
  for (uint64_t i = 0; i < 1000; ++i) {
    same_epoch += shuffled(i, 1000, 7, 0) == shuffled(i, 1000, 7, 1);
    same_seed += shuffled(i, 1000, 7, 0) == shuffled(i, 1000, 8, 0);
  }
  EXPECT_LT(same_epoch, 20);
  EXPECT_LT(same_seed, 20);
  EXPECT_EQ(shuffled(5, 1000, 1, 0), 818u);
  EXPECT_EQ(shuffled_epochs(123456, 1000, 1), 673u);
}

class TextFiles : public testing::Test {
 protected:
  fs::path write(const std::string& name, std::string_view text) {
    fs::create_directories((scratch_.path() / name).parent_path());
    replace_file(scratch_.path() / name, text);
    return scratch_.path() / name;
  }
  test::Scratch scratch_;
};

TEST_F(TextFiles, TextIsEveryByteInOrderRepeated) {
  for (const size_t size : {1, 15, 16, 17, 100, 5000}) {
    const std::string text = made_text(size, size);
    for (const int piece : {16, 64, 4096}) {
      const auto source = open_source(cat("text:", write("a.txt", text), ",piece=", piece));
      std::string read;
      for (uint64_t i = 0; read.size() < 2 * text.size(); ++i) {
        const Piece next = source->piece(i);
        ASSERT_FALSE(next.text.empty());
        ASSERT_LE(next.text.size(), size_t(2 * piece));
        EXPECT_EQ(next.learned[0].end, next.text.size());
        EXPECT_TRUE(valid_utf8(next.text));
        read += next.text;
      }
      EXPECT_EQ(read, text + text);
    }
  }
}

TEST_F(TextFiles, PiecesEndWithParagraphs) {
  std::string text;
  for (int i = 0; i < 100; ++i) text += cat("A paragraph of some words, number ", i, ".\n\n");
  const auto source = open_source(cat("text:", write("a.txt", text), ",piece=200"));
  for (uint64_t i = 0; i < 50; ++i) EXPECT_TRUE(source->piece(i).text.ends_with(".\n\n"));
  EXPECT_EQ(piece_boundary("aaaa bbbb\nccc\n\nddd eee", 8, 1), 15u);
  EXPECT_EQ(piece_boundary("aaaa bbbb\nccc ddd", 8, 1), 10u);
  EXPECT_EQ(piece_boundary("aaaabbbbbbbb cccddd", 8, 1), 13u);
  EXPECT_EQ(piece_boundary("aaaabbbbbbbbcccddd", 8, 1), 8u);
}

TEST_F(TextFiles, ProseIsEveryPieceOncePerEpochReshuffled) {
  const std::string one = made_text(1, 3000) + "end", other = made_text(2, 2000) + "end";
  write("folder/b.txt", other);
  write("folder/sub/c.txt", one);
  write("folder/empty.txt", "");
  write("folder/.hidden", "no");
  fs::create_symlink("circle", scratch_.path() / "folder/circle");
  const fs::path folder = scratch_.path() / "folder";
  const auto prose = open_source(cat("prose:", folder, ",piece=100,seed=4"));
  const auto in_order = open_source(cat("text:", folder, ",piece=100"));
  const uint64_t pieces = (one.size() + 99) / 100 + (other.size() + 99) / 100;
  std::map<std::string, int> expected, epochs[2];
  std::string order[2];
  for (uint64_t i = 0; i < pieces; ++i) {
    std::string text = in_order->piece(i).text;
    if (text.ends_with("end")) text += "\n\n";
    ++expected[text];
    for (const uint64_t epoch : {0, 1}) {
      const std::string found = prose->piece(epoch * pieces + i).text;
      ++epochs[epoch][found];
      order[epoch] += found;
    }
  }
  EXPECT_NE(order[0], order[1]);
  EXPECT_EQ(epochs[0], expected);
  EXPECT_EQ(epochs[1], expected);
  EXPECT_EQ(open_source(prose->description())->piece(77).text, prose->piece(77).text);
}

TEST_F(TextFiles, RejectEmptyAndMissingFiles) {
  EXPECT_FAULT(open_source(cat("text:", write("a.txt", ""))), Fault::file, "empty corpus");
  EXPECT_FAULT(open_source(cat("prose:", scratch_.path() / "nowhere")), Fault::file,
               "found nothing");
  EXPECT_FAULT(open_source("text:"), Fault::usage, "found no path");
  EXPECT_FAULT(open_source(cat("text:", write("a.txt", "x"), ",seed=1")), Fault::usage,
               "expected one of piece; found 'seed'");
  EXPECT_FAULT(open_source(cat("text:", write("a.txt", "x"), ",piece=2")), Fault::usage,
               "from 16 to");
}

}  // namespace
}  // namespace deltasane::corpus
