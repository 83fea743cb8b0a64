#include "serve/state/conversation_store.h"

#include <algorithm>
#include <ctime>

#include "serve/keys.h"

namespace deltasane::serve {
namespace {

Refusal unknown(std::string_view what) {
  return Refusal(404, cat(what, "_not_found"),
                 cat("no ", what, " with this id"));
}

std::vector<const Turn*> in_order(const Turn* last) {
  std::vector<const Turn*> turns;
  for (; last; last = last->before.get()) turns.push_back(last);
  std::ranges::reverse(turns);
  return turns;
}

}  // namespace

Json items_of(const Turn* last) {
  Json items = Json::array();
  for (const Turn* const turn : in_order(last))
    for (const Json& item : turn->items) items.push_back(item);
  return items;
}

ConversationStore::ConversationStore(const fs::path& folder) {
  if (folder.empty()) return;
  journal_ = std::make_unique<Journal>(folder / "conversations.jsonl",
                                       [this](const Json& line) { take_line(line); });
  read_.clear();
}

void ConversationStore::take_line(const Json& line) {
  const auto text = [&](const char* name) { return line.at(name).get<std::string>(); };
  const std::string kind = text("line");
  if (kind == "turn") {
    const std::string before = text("before");
    const auto turn = std::make_shared<const Turn>(
        Turn{before.empty() ? nullptr : read_.at(before), text("id"), line.at("items"),
             text("instructions"), text("state"), line.value("tools", std::string())});
    read_[turn->id] = turn;
    turns_[turn->id] = turn;
  } else if (kind == "response") {
    responses_[text("id")] = {text("owner"), read_.at(text("id")), line.at("reply")};
  } else if (kind == "conversation") {
    conversations_[text("id")] = {text("owner"), nullptr, line.at("metadata"),
                                  line.at("created").get<int64_t>(), false};
  } else if (kind == "head") {
    const auto found = conversations_.find(text("id"));
    if (found != conversations_.end()) found->second.head = read_.at(text("turn"));
  } else {
    responses_.erase(text("id"));
    conversations_.erase(text("id"));
  }
}

void ConversationStore::write(const Json& line) {
  if (journal_) journal_->add(line);
}

void ConversationStore::write_turn(const TurnPointer& turn) {
  write({{"line", "turn"},
         {"id", turn->id},
         {"before", turn->before ? turn->before->id : ""},
         {"items", turn->items},
         {"instructions", turn->instructions},
         {"state", turn->state},
         {"tools", turn->tools}});
  turns_[turn->id] = turn;
}

ConversationStore::Response& ConversationStore::response_of(const std::string& owner,
                                                            const std::string& id) {
  const auto found = responses_.find(id);
  if (found == responses_.end() || found->second.owner != owner) throw unknown("response");
  return found->second;
}

ConversationStore::Conversation& ConversationStore::conversation_of(const std::string& owner,
                                                                    const std::string& id) {
  const auto found = conversations_.find(id);
  if (found == conversations_.end() || found->second.owner != owner) throw unknown("conversation");
  return found->second;
}

TurnPointer ConversationStore::turn(const std::string& owner, const std::string& response) {
  const std::lock_guard lock(mutex_);
  return response_of(owner, response).turn;
}

Json ConversationStore::response(const std::string& owner, const std::string& id) {
  const std::lock_guard lock(mutex_);
  return response_of(owner, id).reply;
}

void ConversationStore::remove_response(const std::string& owner, const std::string& id) {
  const std::lock_guard lock(mutex_);
  response_of(owner, id);
  write({{"line", "remove"}, {"id", id}});
  responses_.erase(id);
}

void ConversationStore::add_response(const std::string& owner, TurnPointer turn, Json reply) {
  const std::lock_guard lock(mutex_);
  write_turn(turn);
  write({{"line", "response"}, {"id", turn->id}, {"owner", owner}, {"reply", reply}});
  const std::string id = turn->id;
  responses_[id] = {owner, std::move(turn), std::move(reply)};
}

std::string ConversationStore::create(const std::string& owner, Json metadata, Json items) {
  const std::string id = random_id("conv_");
  const std::lock_guard lock(mutex_);
  Conversation made{owner, nullptr, std::move(metadata), std::time(nullptr), false};
  if (!items.empty()) {
    made.head = std::make_shared<const Turn>(Turn{nullptr, random_id("turn_"), std::move(items), {}, {}, {}});
    write_turn(made.head);
  }
  write_conversation(id, made);
  conversations_[id] = std::move(made);
  return id;
}

void ConversationStore::update(const std::string& owner, const std::string& id, Json metadata) {
  const std::lock_guard lock(mutex_);
  Conversation& found = conversation_of(owner, id);
  Conversation changed = found;
  changed.metadata = std::move(metadata);
  write_conversation(id, changed);
  found = std::move(changed);
}

// Its line in the journal makes it anew, so its head follows.
void ConversationStore::write_conversation(const std::string& id, const Conversation& conversation) {
  write({{"line", "conversation"},
         {"id", id},
         {"owner", conversation.owner},
         {"metadata", conversation.metadata},
         {"created", conversation.created}});
  if (conversation.head) write({{"line", "head"}, {"id", id}, {"turn", conversation.head->id}});
}

Json ConversationStore::conversation(const std::string& owner, const std::string& id) {
  const std::lock_guard lock(mutex_);
  const Conversation& found = conversation_of(owner, id);
  return {{"id", id},
          {"object", "conversation"},
          {"created_at", found.created},
          {"metadata", found.metadata}};
}

void ConversationStore::remove(const std::string& owner, const std::string& id) {
  const std::lock_guard lock(mutex_);
  conversation_of(owner, id);
  write({{"line", "remove"}, {"id", id}});
  conversations_.erase(id);
}

TurnPointer ConversationStore::head(const std::string& owner, const std::string& id) {
  const std::lock_guard lock(mutex_);
  return conversation_of(owner, id).head;
}

TurnPointer ConversationStore::begin_turn(const std::string& owner, const std::string& id) {
  const std::lock_guard lock(mutex_);
  Conversation& found = conversation_of(owner, id);
  if (found.is_busy)
    throw Refusal(409, "conversation_busy",
                  "conversation: expected one turn at a time, found another that has not ended",
                  "conversation");
  found.is_busy = true;
  return found.head;
}

void ConversationStore::end_turn(const std::string& id, TurnPointer head) {
  const std::lock_guard lock(mutex_);
  const auto found = conversations_.find(id);
  if (found == conversations_.end()) return;  // removed meanwhile
  found->second.is_busy = false;
  if (!head) return;
  if (!turns_.contains(head->id)) write_turn(head);
  write({{"line", "head"}, {"id", id}, {"turn", head->id}});
  found->second.head = std::move(head);
}

}  // namespace deltasane::serve
