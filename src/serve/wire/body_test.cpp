#include "serve/wire/body.h"

#include <gtest/gtest.h>

#include "serve/wire/generation_fields.h"

namespace deltasane::serve {
namespace {

Refusal refusal_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Refusal& refusal) {
    return refusal;
  }
  return Refusal(200, "none", "nothing was refused");
}

int status_of_json(const std::string& text) {
  return refusal_of([&] { read_json(text); }).status;
}

TEST(Body, KeepsWhatJsonSays) {
  const std::string text =
      R"({"a":[1,-2,1.5,true,null,"\u00e4\ud83d\ude00"],"b":{"c":{},"d":[]},"e":18446744073709551615})";
  EXPECT_EQ(dump(read_json(text)), dump(Json::parse(text)));
}

TEST(Body, RefusesHostileJson) {
  std::string deep = R"({"a":)";
  for (int i = 0; i < 100'000; ++i) deep += '[';
  EXPECT_EQ(status_of_json(deep), 400);
  std::string keys = "{";
  for (int i = 0; i < 1'000'000; ++i) keys += cat(i ? "," : "", "\"", i, "\":0");
  EXPECT_EQ(status_of_json(keys + "}"), 400);
  std::string values = R"({"a":[)";
  for (int i = 0; i < 2'200'000; ++i) values += "0,";
  EXPECT_EQ(status_of_json(values + "0]}"), 400);
  for (const char* const bad :
       {"", "[]", "1", "\"a\"", "{", "{\"a\":1,\"a\":2}", "{\"a\":1e999}", "{\"a\":NaN}",
        "{\"a\":Infinity}", "{\"a\":\"\\ud800\"}", "{\"a\":\"\\udc00x\"}", "{\"a\":\"\xff\"}",
        "{\"a\":\"\xc3\"}", "{\"a\":01}", "{\"a\":1,}", "{'a':1}", "{\"a\":1} x", "\xef\xbb\xbf[]"})
    EXPECT_EQ(status_of_json(bad), 400) << bad;
  EXPECT_EQ(status_of_json(std::string("{\"a\":1\0}", 8)), 400);
  const std::string large = cat("{\"a\":\"", std::string(7 << 20, 'x'), "\"}");
  EXPECT_EQ(read_json(large)["a"].get_ref<const std::string&>().size(), size_t{7} << 20);
}

TEST(Body, ExpectsJsonByItsType) {
  HttpRequest request;
  request.body = "{}";
  EXPECT_EQ(refusal_of([&] { read_body(request); }).status, 415);
  request.headers = {{"content-type", "text/plain"}};
  EXPECT_EQ(refusal_of([&] { read_body(request); }).status, 415);
  request.headers = {{"content-type", "application/json; charset=utf-8"}};
  EXPECT_TRUE(read_body(request).empty());
}

TEST(Fields, CheckTypesAndRanges) {
  const Json body = Json::parse(
      R"({"i":5,"w":16.0,"f":0.5,"t":"a","b":true,"z":null,"neg":-3,"big":9223372036854775808,"zero":-0.0})");
  Fields fields(body, "outer");
  EXPECT_EQ(fields.integer("i", 0, 10), 5);
  EXPECT_EQ(fields.integer("w", 0, 100), 16);
  EXPECT_EQ(fields.number("f", 0, 1), 0.5);
  EXPECT_EQ(fields.number("zero", 0, 1), 0.0);
  EXPECT_EQ(fields.text("t"), "a");
  EXPECT_EQ(fields.flag("b"), true);
  EXPECT_EQ(fields.text("z"), std::nullopt);
  EXPECT_EQ(fields.text("absent"), std::nullopt);
  const Refusal refusal = refusal_of([&] { fields.integer("i", 6, 10); });
  EXPECT_EQ(refusal.status, 400);
  EXPECT_EQ(refusal.param, "outer.i");
  EXPECT_STREQ(refusal.what(), "outer.i: expected a whole number from 6 to 10, found 5");
  for (const char* const name : {"f", "t", "b", "big", "neg"})
    EXPECT_EQ(refusal_of([&] { fields.integer(name, 0, INT64_MAX); }).status, 400) << name;
  EXPECT_EQ(refusal_of([&] { fields.flag("i"); }).status, 400);
  EXPECT_EQ(refusal_of([&] { fields.text("i"); }).status, 400);
  EXPECT_EQ(refusal_of([&] { fields.number("t", 0, 1); }).status, 400);
  EXPECT_TRUE(fields.unknown().empty());
  Fields others(body);
  others.accept({"i", "w"});
  EXPECT_EQ(header_list(others.unknown()), "f, t, b, z, neg, big, zero");
  EXPECT_EQ(header_list({"a\r\nX: y", "", "ok"}), "ok");
}

TEST(GenerationFields, RefuseWhatWouldChangeTheTextAndIsNotSupported) {
  for (const char* const bad :
       {R"({"n":1000000000})", R"({"n":0})", R"({"n":-1})", R"({"temperature":-1})",
        R"({"temperature":"hot"})", R"({"top_p":1.5})", R"({"top_p":-0.1})", R"({"top_k":-2})",
        R"({"seed":1.5})", R"({"seed":"a"})", R"({"stop":""})", R"({"stop":[""]})", R"({"stop":[1]})",
        R"({"stop":{}})", R"({"stream":1})",
        R"({"logit_bias":{"x":1}})", R"({"stop_token_ids":[-1]})", R"({"best_of":2})", R"({"response_format":{"type":"xml"}})",
        R"({"stream_options":1})", R"({"presence_penalty":1e9})"}) {
    const Json body = read_json(bad);
    Fields fields(body);
    EXPECT_EQ(refusal_of([&] { read_generation(fields, {}); }).status, 400) << bad;
  }
  Json many{{"stop", Json::array()}};
  for (int i = 0; i < 10'000; ++i) many["stop"].push_back(cat(i));
  Fields stops(many);
  EXPECT_EQ(refusal_of([&] { read_generation(stops, {}); }).status, 400);
}

TEST(GenerationFields, TakesWhatClientsSend) {
  const Json body = read_json(
      R"({"n":2,"temperature":0,"top_p":0.5,"seed":-1,"stop":"a","stream":true,"user":"u",
          "stream_options":{"include_usage":true},"response_format":{"type":"text"},"unknown":1})");
  Fields fields(body);
  const GenerationFields found = read_generation(fields, {});
  EXPECT_EQ(found.samples, 2);
  EXPECT_EQ(found.sampling.temperature, 0);
  EXPECT_EQ(found.sampling.top_p, 0.5);
  EXPECT_EQ(found.sampling.seed, UINT64_MAX);
  EXPECT_EQ(found.stops, std::vector<std::string>{"a"});
  EXPECT_TRUE(found.streams && found.sends_usage && !found.sends_usage_always);
  EXPECT_EQ(fields.unknown(), std::vector<std::string>{"unknown"});
  EXPECT_EQ(found.samplers().size(), 2u);
}

}  // namespace
}  // namespace deltasane::serve
