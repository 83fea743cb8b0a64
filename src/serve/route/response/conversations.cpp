// Conversations, and lists of the items of conversations and responses.
#include <algorithm>

#include "base/json/array_at.h"
#include "base/printable.h"
#include "serve/route/route.h"
#include "serve/wire/response_items.h"

namespace deltasane::serve {
namespace {

constexpr int64_t most_listed = 100, usually_listed = 20;
constexpr size_t most_added = 20;

// A field of the query, which comes once.
std::optional<std::string> query_field(const Call& call, const char* name) {
  std::vector<std::string> values = query_values(call.request.query, name);
  if (values.size() > 1) refuse_field(name, cat("expected it once, found it ", values.size(), " times"));
  if (values.empty()) return std::nullopt;
  return std::move(values[0]);
}

Json item_list(Json items, bool has_more) {
  return {{"object", "list"},
          {"first_id", items.empty() ? Json(nullptr) : items.front()["id"]},
          {"last_id", items.empty() ? Json(nullptr) : items.back()["id"]},
          {"has_more", has_more},
          {"data", std::move(items)}};
}

// The page that the query asks for: limit, order and after. The newest item comes first.
void reply_page(Call& call, Json items) {
  int64_t limit = usually_listed;
  if (const auto given = query_field(call, "limit")) {
    limit = number_in<int64_t>(*given).value_or(0);
    if (limit < 1 || limit > most_listed)
      refuse_field("limit", cat("expected 1 to ", most_listed, ", found ", printable(*given)));
  }
  const std::string order = query_field(call, "order").value_or("desc");
  if (order != "asc" && order != "desc")
    refuse_field("order", cat("expected asc or desc, found ", printable(order)));
  if (order == "desc") std::reverse(items.begin(), items.end());
  auto from = items.begin();
  if (const auto after = query_field(call, "after")) {
    from = std::find_if(items.begin(), items.end(), [&](const Json& one) { return one["id"] == *after; });
    if (from == items.end())
      refuse_field("after", cat("expected the id of an item of the list, found ", printable(*after)));
    ++from;
  }
  const bool has_more = items.end() - from > limit;
  const auto end = has_more ? from + limit : items.end();
  reply_json(call, item_list(Json(Json::array_t(from, end)), has_more));
}

}  // namespace

void list_input_items(Service& service, Call& call) {
  Json items = items_of(service.conversations.turn(call.owner, call.ids[0]).get());
  const Json written = service.conversations.response(call.owner, call.ids[0])["output"];
  const auto is_written = [&](const Json& item) {
    return std::ranges::any_of(written, [&](const Json& one) { return one["id"] == item["id"]; });
  };
  while (!items.empty() && is_written(items.back())) items.erase(items.size() - 1);
  reply_page(call, std::move(items));
}

void list_items(Service& service, Call& call) {
  reply_page(call, items_of(service.conversations.head(call.owner, call.ids[0]).get()));
}

void add_items(Service& service, Call& call) {
  const Json body = read_body(call.request);
  Fields fields(body);
  const Json* const given = fields.find("items");
  if (!given || !given->is_array() || given->empty() || given->size() > most_added)
    refuse_field("items", cat("expected a list of 1 to ", most_added, " items"));
  ConversationStore& store = service.conversations;
  const std::string& id = call.ids[0];
  const TurnPointer before = store.begin_turn(call.owner, id);
  Json items;
  try {
    items = read_items(*given, "items", expect_chat(service).tools(), items_of(before.get()));
    // No state has read them: the next turn reads all.
    store.end_turn(id, std::make_shared<const Turn>(Turn{
                           before, random_id("turn_"), items,
                           before ? before->instructions : std::string(), {}, {}}));
  } catch (...) {
    store.end_turn(id, nullptr);
    throw;
  }
  reply_json(call, item_list(std::move(items), /*has_more=*/false));
}

void create_conversation(Service& service, Call& call) {
  const Json body = read_body(call.request);
  Fields fields(body);
  const Json* const items = fields.find("items");
  const std::string id =
      service.conversations.create(call.owner, read_metadata(fields),
                                   items ? read_items(*items, "items", expect_chat(service).tools(), {})
                                         : Json::array());
  reply_json(call, service.conversations.conversation(call.owner, id));
}

void update_conversation(Service& service, Call& call) {
  const Json body = read_body(call.request);
  Fields fields(body);
  if (!body.contains("metadata")) refuse_field("metadata", "expected an object, found none");
  service.conversations.update(call.owner, call.ids[0], read_metadata(fields));
  reply_json(call, service.conversations.conversation(call.owner, call.ids[0]));
}

void show_conversation(Service& service, Call& call) {
  reply_json(call, service.conversations.conversation(call.owner, call.ids[0]));
}

void delete_conversation(Service& service, Call& call) {
  service.conversations.remove(call.owner, call.ids[0]);
  reply_json(call, {{"id", call.ids[0]}, {"object", "conversation.deleted"}, {"deleted", true}});
}

}  // namespace deltasane::serve
