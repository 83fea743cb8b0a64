// Lists of items, a page at a time, as OpenAI's clients ask for them.
#include <gtest/gtest.h>

#include "base/json/array_at.h"
#include "serve/fixture_service.h"
#include "support/scratch.h"

namespace deltasane::serve {
namespace {

using test::ServiceFixture;

Json messages(int from, int to) {
  Json items = Json::array();
  for (int i = from; i < to; ++i)
    items.push_back({{"role", "user"}, {"content", cat("message ", i)}});
  return items;
}

std::vector<int> numbers_in(const Json& list) {
  std::vector<int> numbers;
  for (const Json& item : list["data"])
    numbers.push_back(std::stoi(item["content"][0]["text"].get<std::string>().substr(8)));
  return numbers;
}

std::vector<int> numbers(int from, int to) {
  std::vector<int> all;
  for (int i = from; i != to; i += from < to ? 1 : -1) all.push_back(i);
  return all;
}

struct ItemLists : testing::Test {
  ServiceFixture fixture;
  std::string path;

  void SetUp() override {
    const Json made = fixture.post("/v1/conversations", {{"items", messages(0, 45)}});
    path = cat("/v1/conversations/", made["id"].get<std::string>(), "/items");
  }
  HttpReply get(const std::string& from, const std::string& query) {
    const auto exchange = std::make_shared<test::KeptExchange>();
    fixture.server->handle({"GET", from, query, {}, {}, "test"}, exchange);
    return exchange->wait();
  }
  Json page(const std::string& query) { return Json::parse(get(path, query).body); }
};

TEST_F(ItemLists, HaveTwentyOfTheNewestItems) {
  const Json list = page("");
  EXPECT_EQ(numbers_in(list), numbers(44, 24));
  EXPECT_EQ(list["object"], "list");
  EXPECT_EQ(list["has_more"], true);
  EXPECT_EQ(list["first_id"], list["data"][0]["id"]);
  EXPECT_EQ(list["last_id"], list["data"][19]["id"]);
  EXPECT_EQ(numbers_in(page("order=asc&limit=3")), numbers(0, 3));
  EXPECT_EQ(numbers_in(page("limit=100&order=desc&include=x")), numbers(44, -1));
  EXPECT_EQ(page("limit=45")["has_more"], false);
  EXPECT_EQ(page("limit=44")["has_more"], true);
}

TEST_F(ItemLists, GoOnAfterAnItem) {
  for (const bool ascends : {true, false}) {
    std::vector<int> all;
    std::string after;
    for (bool more = true; more;) {
      const Json list = page(cat("limit=20&order=", ascends ? "asc" : "desc", after));
      for (const int number : numbers_in(list)) all.push_back(number);
      after = cat("&after=", list["last_id"].get<std::string>());
      more = list["has_more"].get<bool>();
    }
    EXPECT_EQ(all, ascends ? numbers(0, 45) : numbers(44, -1));
  }
  const std::string last = page("order=asc&limit=45")["last_id"];
  const Json empty = page(cat("order=asc&after=", last));
  EXPECT_TRUE(empty["data"].empty() && empty["first_id"].is_null());
  EXPECT_EQ(empty["has_more"], false);
}

TEST_F(ItemLists, RefuseWhatIsNoPage) {
  for (const char* const bad : {"limit=0", "limit=101", "limit=-1", "limit=x", "limit=", "limit=2.0",
                                "order=up", "order=", "after=msg_x", "after=", "limit=2&limit=3"}) {
    const HttpReply reply = get(path, bad);
    EXPECT_EQ(reply.status, 400) << bad;
    const std::string_view query(bad);
    EXPECT_EQ(Json::parse(reply.body)["error"].value("param", ""), query.substr(0, query.find('=')));
  }
}

TEST_F(ItemLists, OfAResponsesInputAreTheSame) {
  Json input = messages(0, 24);
  const Json made = fixture.post("/v1/responses", {{"input", input}, {"max_output_tokens", 4}});
  path = cat("/v1/responses/", made["id"].get<std::string>(), "/input_items");
  EXPECT_EQ(numbers_in(page("")), numbers(23, 3));
  EXPECT_EQ(numbers_in(page("order=asc&limit=2")), numbers(0, 2));
  EXPECT_EQ(get(path, "limit=0").status, 400);
}

TEST_F(ItemLists, GrowByItemsThatAreAdded) {
  const HttpReply reply =
      fixture.call("POST", path, dump({{"items", messages(45, 48)}}));
  EXPECT_EQ(reply.status, 200) << reply.body;
  const Json added = Json::parse(reply.body);
  EXPECT_EQ(numbers_in(added), numbers(45, 48));
  EXPECT_EQ(added["has_more"], false);
  EXPECT_EQ(numbers_in(page("limit=4")), numbers(47, 43));
  EXPECT_EQ(page("limit=1")["data"][0], added["data"][2]);
  for (const char* const bad : {"{}", R"({"items":[]})", R"({"items":"a"})", R"({"items":[5]})"})
    EXPECT_EQ(fixture.call("POST", path, bad).status, 400) << bad;
  EXPECT_EQ(fixture.call("POST", path, dump({{"items", messages(0, 21)}})).status, 400);
  EXPECT_EQ(fixture.call("POST", "/v1/conversations/x/items", dump({{"items", messages(0, 1)}})).status, 404);
  // A turn after them reads them, and a failed addition holds nobody up.
  const std::string id = path.substr(18, path.size() - 18 - 6);
  const Json turn = fixture.post("/v1/responses", {{"input", "3 + 4"}, {"conversation", id}, {"max_output_tokens", 4}});
  EXPECT_GT(turn["usage"]["input_tokens"].get<int>(), 48 * 9);
}

TEST(Conversations, KeepTheirLastMetadata) {
  const deltasane::test::Scratch scratch;
  ServeSettings settings;
  settings.states.folder = scratch.path() / "kept";
  std::string path;
  {
    ServiceFixture fixture(settings);
    const Json made = fixture.post("/v1/conversations", {{"items", messages(0, 2)}, {"metadata", {{"a", "1"}}}});
    path = cat("/v1/conversations/", made["id"].get<std::string>());
    const Json changed = fixture.post(path, {{"metadata", {{"b", "2"}}}});
    EXPECT_EQ(changed["metadata"], Json({{"b", "2"}}));
    EXPECT_EQ(changed["created_at"], made["created_at"]);
    EXPECT_EQ(fixture.call("POST", path, R"({"metadata":5})").status, 400);
    EXPECT_EQ(fixture.call("POST", path, "{}").status, 400);
    EXPECT_EQ(fixture.call("POST", path + "/items", dump({{"items", messages(2, 4)}})).status, 200);
  }
  ServiceFixture fixture(settings);
  EXPECT_EQ(Json::parse(fixture.call("GET", path).body)["metadata"], Json({{"b", "2"}}));
  EXPECT_EQ(numbers_in(Json::parse(fixture.call("GET", path + "/items").body)), numbers(3, -1));
}

}  // namespace
}  // namespace deltasane::serve
