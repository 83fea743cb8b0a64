#include "base/words/nearest_word.h"

#include <gtest/gtest.h>

namespace deltasane {
namespace {

TEST(NearestWord, CountsLettersThatDiffer) {
  EXPECT_EQ(edit_distance("", ""), 0u);
  EXPECT_EQ(edit_distance("", "ab"), 2u);
  EXPECT_EQ(edit_distance("kernal", "kernel"), 1u);
  EXPECT_EQ(edit_distance("chta", "chat"), 1u);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3u);
}

TEST(NearestWord, IsALongerOneOrOneThatHardlyDiffers) {
  const std::vector<std::string> known{"demo", "generate", "info", "stream", "score", "x"};
  const std::optional<std::string> none;
  for (const auto& [word, expected] :
       {std::pair<std::string_view, std::optional<std::string>>{"gen", "generate"},
        {"genrate", "generate"},
        {"sc", "score"},
        {"strema", "stream"},
        {"foo", none},
        {"s", none},
        {"y", none},
        {"", none},
        {"generosity", none}})
    EXPECT_EQ(nearest_word(word, known), expected) << word;
  EXPECT_EQ(nearest_word("x", std::vector<std::string>{}), none);
}

}  // namespace
}  // namespace deltasane
