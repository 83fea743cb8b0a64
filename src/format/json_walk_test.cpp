#include "format/json_walk.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "support/errors.h"
#include "support/scratch.h"

namespace deltasane {
namespace {

std::string walk(std::string_view text, const JsonLimits& limits = {}) {
  using Kind = JsonValue::Kind;
  std::string out;
  walk_json(text, "file", limits,
            [&](const std::vector<std::string>& path, const JsonValue& value) {
              for (const std::string& part : path) out += part + "/";
              if (value.kind == Kind::object) out += "{";
              if (value.kind == Kind::array) out += "[";
              if (value.kind == Kind::end) out += "end";
              if (value.kind == Kind::text) out += value.text;
              if (value.kind == Kind::natural) out += cat(value.natural);
              if (value.kind == Kind::negative) out += cat(value.negative);
              if (value.kind == Kind::real) out += cat(value.real);
              if (value.kind == Kind::truth) out += value.natural ? "yes" : "no";
              if (value.kind == Kind::nothing) out += "null";
              out += " ";
            });
  return out;
}

TEST(JsonWalk, VisitsValuesWithTheirPaths) {
  EXPECT_EQ(walk(R"({"a":[1,-2,0.5,{"b":true}],"c":{"d":"e","f":null},"g":false})"),
            "{ a/[ a/1 a/-2 a/0.5 a/{ a/b/yes a/end a/end c/{ c/d/e c/f/null c/end g/no end ");
}

TEST(JsonWalk, RejectsMalformedJson) {
  for (const char* const text :
       {"", "{", "{]", "{\"a\" 1}", "{\"a\":1}}", "[1,]", "{\"a\":\"\xff\"}", "\"\xed\xa0\x80\"",
        "[1e400]", "nul", "{\"a\":1,}"})
    EXPECT_FAULT(walk(text), Fault::file, "file: at byte");
  EXPECT_FAULT(walk(std::string_view("{}\0{}", 5)), Fault::file, "zero byte");
  EXPECT_FAULT(walk(R"({"a":1,"a":2})"), Fault::file, "key 'a'");
  EXPECT_FAULT(walk(R"([{"a":{"b":1,"b":2}}])"), Fault::file, "key 'b'");
}

TEST(JsonWalk, BoundsDepthAndLength) {
  EXPECT_FAULT(walk(std::string(1'000'000, '[')), Fault::file, "at most 16 deep");
  EXPECT_EQ(walk(R"([[[]]])", {.depth = 3}), "[ [ [ end end end ");
  EXPECT_FAULT(walk(R"([[[]]])", {.depth = 2}), Fault::file, "at most 2 deep");
  EXPECT_FAULT(walk(R"("abcd")", {.text = 3}), Fault::file, "at most 3 bytes");
  EXPECT_FAULT(walk(R"({"a":1,"b":{},"c":1})", {.keys = 2}), Fault::file, "at most 2 keys");
  EXPECT_FAULT(walk(R"({"abcd":1})", {.text = 3}), Fault::file, "at most 3 bytes");
}

TEST(JsonWalk, BoundsTheSizeOfAFile) {
  const test::Scratch scratch;
  replace_file(scratch.path() / "f", "[1, 2, 3]");
  int values = 0;
  const auto count = [&](const std::vector<std::string>&, const JsonValue&) { ++values; };
  walk_json_file(scratch.path() / "f", {}, count);
  EXPECT_EQ(values, 5);
  EXPECT_FAULT(walk_json_file(scratch.path() / "f", {.file = 8}, count), Fault::file, "at most 8");
}

}  // namespace
}  // namespace deltasane
