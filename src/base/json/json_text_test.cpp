#include "base/json/json_text.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "support/errors.h"

namespace deltasane {
namespace {

using Json = nlohmann::json;

std::string nested(size_t depth, char open, char close, std::string_view key = "") {
  std::string text;
  for (size_t i = 0; i < depth; ++i) (text += open) += key;
  text += "1";
  return text + std::string(depth, close);
}

TEST(JsonText, ParsesUpToTheLimit) {
  EXPECT_TRUE(parse_json<Json>(nested(max_json_depth, '[', ']')).is_array());
  EXPECT_TRUE(parse_json<Json>(nested(max_json_depth, '{', '}', "\"a\":")).is_object());
  EXPECT_TRUE(parse_json<Json>(nested(max_json_depth + 1, '[', ']')).is_discarded());
  EXPECT_TRUE(parse_json<Json>(nested(max_json_depth + 1, '{', '}', "\"a\":")).is_discarded());
}

TEST(JsonText, RefusesWhatWouldOverflowTheStack) {
  for (const size_t depth : {size_t{100'000}, size_t{5'000'000}}) {
    EXPECT_TRUE(parse_json<Json>(nested(depth, '[', ']')).is_discarded());
    EXPECT_TRUE(parse_json<Json>(std::string(depth, '[')).is_discarded());
  }
  EXPECT_FAULT(parse_json<Json>(std::string(100'000, '['), "file"), Fault::file,
               "file: expected JSON, nested at most 64 deep");
}

TEST(JsonText, BracketsInStringsAreText) {
  const std::string brackets(1000, '[');
  EXPECT_EQ(parse_json<Json>("\"" + brackets + "\"").get<std::string>(), brackets);
  EXPECT_EQ(parse_json<Json>("[\"a\\\"" + brackets + "\"]").size(), 1u);
  // After a string that ends in a backslash the brackets count again.
  EXPECT_TRUE(parse_json<Json>("[\"a\\\\\"," + brackets).is_discarded());
}

TEST(JsonText, ArraysSideBySideAreNotDeep) {
  std::string text = "[1";
  for (int i = 0; i < 1000; ++i) text += ",[{\"a\":[]}]";
  EXPECT_EQ(parse_json<Json>(text + "]").size(), 1001u);
}

}  // namespace
}  // namespace deltasane
