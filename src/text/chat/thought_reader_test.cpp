#include "text/chat/thought_reader.h"

#include <gtest/gtest.h>

namespace deltasane {
namespace {

using Piece = ThoughtReader::Piece;

Piece read_in_pieces(std::string_view beginning, std::string_view text, size_t length) {
  ThoughtReader reader(beginning);
  Piece all;
  const auto add = [&](const Piece& piece) {
    all.thoughts += piece.thoughts, all.answer += piece.answer;
  };
  for (; !text.empty(); text.remove_prefix(std::min(length, text.size())))
    add(reader.feed(text.substr(0, length)));
  add(reader.finish());
  return all;
}

struct Row {
  std::string_view beginning, text, thoughts, answer;
};

TEST(ThoughtReader, SplitsHoweverTheTextIsCut) {
  const Row rows[] = {
      {"", " 2 + 2 is 4", "", "2 + 2 is 4"},
      {" <think", ">I add.</think>\n\n4", "I add.", "4"},
      {" <think", ">\nI add\nand wait", "I add\nand wait", ""},
      {" <think>\n</think", ">\n4", "", "4"},
      {"", " <think>a</thin b</think>c </think>d", "a</thin b", "c </think>d"},
      {"", "<thin air", "", "<thin air"},
      {"", "<thi", "", "<thi"},
      {" <think", ">half </thi", "half </thi", ""},
      {" <think", " twice", "", "<think twice"},
      {"", "", "", ""},
  };
  for (const Row& row : rows)
    for (size_t length = 1; length <= row.text.size() + 1; ++length) {
      const Piece piece = read_in_pieces(row.beginning, row.text, length);
      EXPECT_EQ(piece.thoughts, row.thoughts) << row.text << " in pieces of " << length;
      EXPECT_EQ(piece.answer, row.answer) << row.text << " in pieces of " << length;
    }
}

TEST(ThoughtReader, SaysWhetherItIsInside) {
  ThoughtReader reader(" <think");
  EXPECT_FALSE(reader.is_thinking());
  reader.feed(">");
  EXPECT_TRUE(reader.is_thinking());
  reader.feed("so</think>");
  EXPECT_FALSE(reader.is_thinking());
}

}  // namespace
}  // namespace deltasane
