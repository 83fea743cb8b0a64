#include <gtest/gtest.h>

#include "serve/fixture_service.h"

namespace deltasane::serve {
namespace {

using test::events_in;
using test::ServiceFixture;

const std::string sum_prompt = "User: 3 + 4 = ?\n\nAssistant:";

// The text that the engine writes alone, as `generate` does.
GeneratedText generated(ServiceFixture& fixture, const std::string& text, SamplerSettings sampling,
                        int64_t tokens, std::vector<std::string> stops = {}) {
  Engine engine(*fixture.model, fixture.tokenizer, {fixture.threads},
                {.stops = std::move(stops), .tokens = tokens});
  std::optional<GeneratedText> found;
  engine.on_end = [&](GeneratedText one) { found = std::move(one); };
  engine.submit({0, fixture.model->fresh_state(), fixture.tokenizer.encode_document(text),
                 {Sampler(sampling)}});
  while (engine.step()) {
  }
  return std::move(*found);
}

TEST(Completions, EqualWhatGenerateWrites) {
  ServiceFixture fixture;
  for (const uint64_t seed : {1, 2, 3}) {
    const Json reply = fixture.post(
        "/v1/completions", {{"model", "small"}, {"prompt", sum_prompt}, {"max_tokens", 24}, {"seed", seed}});
    SamplerSettings sampling;
    sampling.seed = seed;
    const GeneratedText alone = generated(fixture, sum_prompt, sampling, 24);
    EXPECT_EQ(reply["choices"][0]["text"], alone.text);
    EXPECT_EQ(reply["choices"][0]["finish_reason"], "length");
    EXPECT_EQ(reply["usage"]["prompt_tokens"], sum_prompt.size());
    EXPECT_EQ(reply["usage"]["completion_tokens"], 24);
    EXPECT_EQ(reply["deltasane"]["seed"], seed);
    EXPECT_TRUE(reply["id"].get<std::string>().starts_with("cmpl-"));
  }
}

TEST(Completions, StreamTheSameText) {
  ServiceFixture fixture;
  Json body{{"prompt", sum_prompt}, {"max_tokens", 20}, {"seed", 9}, {"n", 2}, {"temperature", 3}, {"top_k", 0}};
  const Json whole = fixture.post("/v1/completions", body);
  body["stream"] = true;
  body["stream_options"] = {{"include_usage", true}};
  const HttpReply reply = fixture.call("POST", "/v1/completions", dump(body));
  EXPECT_EQ(reply.content_type, "text/event-stream; charset=utf-8");
  std::vector<Json> events = events_in(reply.body);
  ASSERT_GT(events.size(), 4u);
  EXPECT_EQ(events.back(), "[DONE]");
  events.pop_back();
  EXPECT_TRUE(events.back()["choices"].empty());
  EXPECT_EQ(events.back()["usage"], whole["usage"]);
  events.pop_back();
  std::string texts[2];
  for (const Json& event : events) {
    EXPECT_TRUE(event["usage"].is_null());
    const Json& choice = event["choices"][0];
    texts[choice["index"].get<size_t>()] += choice["text"].get<std::string>();
  }
  for (size_t i = 0; i < 2; ++i) EXPECT_EQ(texts[i], whole["choices"][i]["text"].get<std::string>());
  EXPECT_NE(texts[0], texts[1]);
}

TEST(Completions, EndAtStopTexts) {
  ServiceFixture fixture;
  const Json body{{"prompt", sum_prompt}, {"max_tokens", 200}, {"seed", 1}, {"stop", {"\n\nUser:", "zzz"}}};
  const Json reply = fixture.post("/v1/completions", body);
  SamplerSettings sampling;
  sampling.seed = 1;
  const GeneratedText alone = generated(fixture, sum_prompt, sampling, 200, {"\n\nUser:", "zzz"});
  EXPECT_EQ(reply["choices"][0]["text"], alone.text);
  EXPECT_EQ(reply["choices"][0]["finish_reason"], alone.ended == Ended::stop_text ? "stop" : "length");
}

// What lm-evaluation-harness sends, and how it reads the reply.
TEST(Completions, ScorePromptsAsScoreDoes) {
  ServiceFixture fixture;
  const std::string texts[] = {"User: 12 + 30\n\nAssistant: 42\n\n", "7 - 2 is 5",
                               std::string(700, 'a') + "b"};
  Json prompts = Json::array();
  for (const std::string& text : texts) prompts.push_back(fixture.tokenizer.encode(text));
  const Json reply = fixture.post("/v1/completions", {{"prompt", prompts},
                                                      {"temperature", 0},
                                                      {"max_tokens", 1},
                                                      {"logprobs", 1},
                                                      {"seed", 1234},
                                                      {"echo", true}});
  ASSERT_EQ(reply["choices"].size(), 3u);
  for (size_t p = 0; p < 3; ++p) {
    const Json& choice = reply["choices"][p];
    EXPECT_EQ(choice["index"], p);
    const std::vector<int32_t> ids = fixture.tokenizer.encode(texts[p]);
    SequenceState state = fixture.model->fresh_state();
    std::vector<double> losses(ids.size() - 1);
    score(*fixture.model, std::span(ids).first(ids.size() - 1), std::span(ids).subspan(1), state,
          losses, {fixture.threads});
    const Json& lists = choice["logprobs"];
    for (const char* const name : {"tokens", "token_logprobs", "top_logprobs", "text_offset"})
      ASSERT_EQ(lists[name].size(), ids.size() + 1) << name;
    EXPECT_TRUE(lists["token_logprobs"][0].is_null());
    EXPECT_TRUE(lists["top_logprobs"][0].is_null());
    for (size_t i = 1; i < ids.size(); ++i) {
      EXPECT_EQ(lists["token_logprobs"][i].get<double>(), -losses[i - 1]) << p << " " << i;
      const double best = lists["top_logprobs"][i].begin()->get<double>();
      EXPECT_GE(best, lists["token_logprobs"][i].get<double>());
      const std::string likeliest = lists["top_logprobs"][i].begin().key();
      if (likeliest == lists["tokens"][i].get<std::string>()) {
        EXPECT_EQ(best, lists["token_logprobs"][i].get<double>());
      }
    }
    EXPECT_TRUE(choice["text"].get<std::string>().starts_with(texts[p]));
    EXPECT_EQ(lists["text_offset"][5], 5);
  }
}

TEST(Completions, NameBytesThatAreNoCharacters) {
  ServiceFixture fixture;
  const Json reply = fixture.post("/v1/completions", {{"prompt", "\u00e4b"},
                                                      {"max_tokens", 0},
                                                      {"logprobs", 20},
                                                      {"echo", true}});
  const Json& lists = reply["choices"][0]["logprobs"];
  EXPECT_EQ(lists["tokens"], Json({"bytes:\\xc3", "bytes:\\xa4", "b"}));
  EXPECT_EQ(lists["text_offset"], Json({0, 0, 1}));
  EXPECT_EQ(lists["top_logprobs"][1].size(), 20u);
  EXPECT_EQ(reply["choices"][0]["text"], "\u00e4b");
  EXPECT_EQ(reply["usage"]["completion_tokens"], 0);
}

TEST(Completions, RefuseAPromptOfTenMillionTokens) {
  ServiceFixture fixture;
  const HttpReply reply = fixture.call(
      "POST", "/v1/completions", cat(R"({"max_tokens":1,"prompt":")", std::string(10'000'000, 'a'), R"("})"));
  EXPECT_EQ(reply.status, 400);
  EXPECT_NE(reply.body.find("1048576 tokens"), std::string::npos) << reply.body;
}

TEST(Completions, RefuseHostileRequests) {
  ServiceFixture fixture;
  for (const char* const bad :
       {R"({})", R"({"prompt":null})", R"({"prompt":""})", R"({"prompt":[]})", R"({"prompt":[[]]})",
        R"({"prompt":[[],[]]})", R"({"prompt":[""]})", R"({"prompt":[-1]})", R"({"prompt":[256]})",
        R"({"prompt":[65536]})", R"({"prompt":[2147483648]})", R"({"prompt":[1.5]})",
        R"({"prompt":["a",5]})", R"({"prompt":[5,"a"]})", R"({"prompt":{"a":1}})", R"({"prompt":5})",
        R"({"prompt":"a","max_tokens":0})", R"({"prompt":"a","max_tokens":-1})",
        R"({"prompt":"a","max_tokens":9223372036854775808})", R"({"prompt":"a","logprobs":1000000})",
        R"({"prompt":"a","logprobs":-1})", R"({"prompt":"a","suffix":"b"})",
        R"({"prompt":"a","model":5})"}) {
    const HttpReply reply = fixture.call("POST", "/v1/completions", bad);
    EXPECT_EQ(reply.status, 400) << bad << reply.body;
    const Json error = Json::parse(reply.body)["error"];
    EXPECT_EQ(error["type"], "invalid_request_error");
    EXPECT_TRUE(error["message"].is_string() && error["code"].is_string());
  }
  Json many{{"prompt", Json::array()}};
  for (int i = 0; i < 257; ++i) many["prompt"].push_back("a");
  EXPECT_EQ(fixture.call("POST", "/v1/completions", dump(many)).status, 400);
  EXPECT_EQ(fixture.call("POST", "/v1/completions", R"({"prompt":"a","model":"other"})").status, 404);
}

TEST(Completions, NameFieldsThatAreNotKnown) {
  ServiceFixture fixture;
  const HttpReply reply =
      fixture.call("POST", "/v1/completions", R"({"prompt":"a","max_tokens":1,"foo":1,"user":"u"})");
  EXPECT_EQ(reply.headers, (Headers{{"x-deltasane-ignored", "foo"}}));
}

TEST(Tokens, GoThereAndBack) {
  ServiceFixture fixture;
  const Json tokens = fixture.post("/tokenize", {{"prompt", "ab\u00e4"}, {"add_special_tokens", false}});
  EXPECT_EQ(tokens["tokens"], Json({97, 98, 0xc3, 0xa4}));
  EXPECT_EQ(tokens["count"], 4);
  EXPECT_EQ(fixture.post("/detokenize", {{"tokens", tokens["tokens"]}})["prompt"], "ab\u00e4");
  EXPECT_EQ(fixture.post("/v1/detokenize", {{"tokens", {0xc3}}})["prompt"], "\ufffd");
  EXPECT_EQ(fixture.call("POST", "/detokenize", R"({"tokens":[256]})").status, 400);
  const Json about = Json::parse(fixture.call("GET", "/tokenizer_info").body);
  const Json end = fixture.post("/tokenize", {{"prompt", about["eos_token"]}});
  EXPECT_EQ(end["tokens"], Json({0}));
}

}  // namespace
}  // namespace deltasane::serve
