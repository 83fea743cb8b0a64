// Responses and conversations: what was said, and the state that has read it.
//
// A turn is a node with its messages and its parent, so that a long conversation is kept once. Where
// there is a folder, every change is a line of a journal, durable before it is answered.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/io/file.h"
#include "serve/state/journal.h"
#include "serve/wire/body.h"

namespace deltasane::serve {

struct Turn {
  std::shared_ptr<const Turn> before;
  std::string id;            // of the response, or of items that were added
  Json items;                // as clients wrote and get them: wire/response_items.h
  std::string instructions;  // in force
  std::string state;         // has read all of it; empty: none was kept
  std::string tools;         // that the state was told of, as JSON; empty: none
};
using TurnPointer = std::shared_ptr<const Turn>;

Json items_of(const Turn* last);

class ConversationStore {
 public:
  explicit ConversationStore(const fs::path& folder);  // empty: memory alone

  // Throw a Refusal with 404 where the owner has none.
  TurnPointer turn(const std::string& owner, const std::string& response);
  Json response(const std::string& owner, const std::string& id);
  void remove_response(const std::string& owner, const std::string& id);
  void add_response(const std::string& owner, TurnPointer turn, Json reply);

  std::string create(const std::string& owner, Json metadata, Json items);
  void update(const std::string& owner, const std::string& id, Json metadata);
  Json conversation(const std::string& owner, const std::string& id);
  void remove(const std::string& owner, const std::string& id);
  TurnPointer head(const std::string& owner, const std::string& id);
  // One turn at a time: 409 where another has begun and not ended.
  TurnPointer begin_turn(const std::string& owner, const std::string& id);
  void end_turn(const std::string& id, TurnPointer head);  // null: nothing was added

 private:
  struct Response {
    std::string owner;
    TurnPointer turn;
    Json reply;
  };
  struct Conversation {
    std::string owner;
    TurnPointer head;
    Json metadata;
    int64_t created = 0;
    bool is_busy = false;
  };
  Response& response_of(const std::string& owner, const std::string& id);
  Conversation& conversation_of(const std::string& owner, const std::string& id);
  void write(const Json& line);
  void take_line(const Json& line);
  void write_turn(const TurnPointer& turn);
  void write_conversation(const std::string& id, const Conversation& conversation);

  std::mutex mutex_;
  std::map<std::string, std::weak_ptr<const Turn>> turns_;  // all that something leads to
  std::map<std::string, TurnPointer> read_;                 // while the journal is read
  std::map<std::string, Response> responses_;
  std::map<std::string, Conversation> conversations_;
  std::unique_ptr<Journal> journal_;
};

}  // namespace deltasane::serve
