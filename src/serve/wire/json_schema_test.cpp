#include "serve/wire/json_schema.h"

#include <gtest/gtest.h>

#include "serve/fixture_service.h"
#include "text/grammar/grammar_matcher.h"

namespace deltasane::serve {
namespace {

bool fits(const std::string& grammar, std::string_view text) {
  GrammarMatcher matcher(std::make_shared<const Grammar>(parse_grammar(grammar)));
  return matcher.advance(text) && GrammarMatcher::can_end(matcher.state());
}

struct SchemaRow {
  const char* schema;
  std::vector<const char*> good, bad;
};

TEST(JsonSchema, BecomesAGrammar) {
  const SchemaRow rows[] = {
      {R"({"type":"integer"})", {"0", "-12", "7"}, {"01", "1.5", "\"1\"", "", "-"}},
      {R"({"type":"number"})", {"0", "-1.5", "2e10", "3.25E-2"}, {"1.", ".5", "1e", "NaN"}},
      {R"({"type":["string","null"]})", {"null", "\"a\"", R"("\u00e4\n")", "\"\u00e4\""},
       {"\"a", "\"\n\"", R"("\x")", "1"}},
      {R"({"type":"boolean"})", {"true", "false"}, {"True", "1"}},
      {R"({"enum":["a",1,null,{"b":[2]}]})", {"\"a\"", "1", "null", R"({"b":[2]})"}, {"a", "2"}},
      {R"({"const":"x\"y"})", {R"("x\"y")"}, {"\"x\""}},
      {R"({"type":"array","items":{"type":"integer"},"minItems":1,"maxItems":3})",
       {"[1]", "[1,2, 3]"}, {"[]", "[1,2,3,4]", "[1,]", "[\"a\"]"}},
      {R"({"type":"array"})", {"[]", "[1,\"a\",[{}]]"}, {"[1", "{}"}},
      {R"({"type":"string","minLength":2,"maxLength":3})", {"\"ab\"", "\"\u00e4bc\""}, {"\"a\"", "\"abcd\""}},
      {R"({"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"boolean"},"c":{"type":"null"}},"required":["b"]})",
       {R"({"b":true})", R"({"a":1,"b":false})", R"({"a":1,"b":true,"c":null})", R"({"b":true,"c":null})"},
       {R"({})", R"({"a":1})", R"({"b":true,"a":1})", R"({"b":true,})", R"({"b":true,"d":1})", R"({,"b":true})"}},
      {R"({"type":"object","additionalProperties":{"type":"integer"}})", {"{}", R"({"x":1,"y":2})"}, {R"({"x":"a"})"}},
      {R"({"anyOf":[{"type":"integer"},{"$ref":"#/$defs/t"}],"$defs":{"t":{"type":"array","items":{"$ref":"#"}}}})",
       {"1", "[1,[2,[]]]"}, {"[\"a\"]", "{}"}},
  };
  for (const SchemaRow& row : rows) {
    const std::string grammar = grammar_of_schema(Json::parse(row.schema), "schema");
    for (const char* const text : row.good) EXPECT_TRUE(fits(grammar, text)) << row.schema << text;
    for (const char* const text : row.bad) EXPECT_FALSE(fits(grammar, text)) << row.schema << text;
  }
  EXPECT_TRUE(fits(any_object_grammar(), R"({"a": [1, {"b": null}], "c": "d"})"));
  EXPECT_FALSE(fits(any_object_grammar(), "[1]"));
}

TEST(JsonSchema, RefusesWhatItWouldHaveToIgnore) {
  Json deep{{"type", "integer"}};
  for (int i = 0; i < 100; ++i) deep = {{"type", "array"}, {"items", deep}};
  for (const std::string& bad :
       {std::string(R"({"type":"string","pattern":"a+"})"), std::string(R"({"type":"integer","minimum":3})"),
        std::string(R"({"type":"string","format":"date"})"), std::string(R"({"type":"text"})"),
        std::string(R"({"type":5})"), std::string(R"({"not":{}})"), std::string(R"({"enum":[]})"),
        std::string(R"({"$ref":"other.json"})"), std::string(R"({"$ref":"#/$defs/none"})"),
        std::string(R"({"allOf":[{},{}]})"), std::string(R"({"type":"object","required":["a"]})"),
        std::string(R"({"type":"object","properties":{"a":{}},"required":["b"]})"),
        std::string(R"({"type":"array","maxItems":1000000000})"), std::string(R"(["a"])"), dump(deep)})
    EXPECT_THROW(grammar_of_schema(Json::parse(bad), "schema"), Refusal) << bad.substr(0, 80);
}

// Whatever the model would like to write, it writes what the schema allows.
TEST(JsonSchema, HoldsForEveryAnswer) {
  test::ServiceFixture fixture;
  const Json schema = Json::parse(
      R"({"type":"object","properties":{"sum":{"type":"integer"},"sure":{"type":"boolean"},
          "steps":{"type":"array","items":{"enum":["add","carry"]},"maxItems":3}},"required":["sum","sure"]})");
  for (const int seed : {1, 2, 3, 4}) {
    const Json reply = fixture.post(
        "/v1/chat/completions",
        {{"messages", {{{"role", "user"}, {"content", "3 + 4"}}}},
         {"max_tokens", 300},
         {"seed", seed},
         {"temperature", 2},
         {"response_format", {{"type", "json_schema"}, {"json_schema", {{"name", "sum"}, {"schema", schema}}}}}});
    EXPECT_EQ(reply["choices"][0]["finish_reason"], "stop");
    const Json answer = Json::parse(reply["choices"][0]["message"]["content"].get<std::string>());
    EXPECT_TRUE(answer["sum"].is_number_integer() && answer["sure"].is_boolean()) << answer.dump();
  }
  const Json chosen = fixture.post("/v1/completions", {{"prompt", "User: hi"}, {"n", 3}, {"max_tokens", 9},
                                                       {"grammar", "root ::= \"yes\" | \"no\""}});
  for (const Json& choice : chosen["choices"])
    EXPECT_TRUE(choice["text"] == "yes" || choice["text"] == "no") << choice["text"];
  for (const char* const bad :
       {R"({"prompt":"a","grammar":"root ::= ["})", R"({"prompt":"a","grammar":"root ::= root \"a\""})",
        R"({"prompt":"a","grammar":"root ::= \"a\"","logprobs":1})",
        R"({"prompt":"a","response_format":{"type":"json_schema"}})",
        R"({"prompt":"a","response_format":{"type":"json_schema","json_schema":{"schema":{"type":"integer","minimum":1}}}})"})
    EXPECT_EQ(fixture.call("POST", "/v1/completions", bad).status, 400) << bad;
}

}  // namespace
}  // namespace deltasane::serve
