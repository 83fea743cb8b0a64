#include <algorithm>
#include <array>

#include "base/cat.h"
#include "base/printable.h"
#include "corpus/rows/row_json.h"
#include "text/chat/world_chat.h"

namespace deltasane::corpus {
namespace {

using Json = nlohmann::json;

constexpr std::string_view known_columns[] = {
    "conversations", "messages", "system",   "prompt",   "response", "completion", "instruction",
    "input",         "output",   "question", "solution", "answer",   "text"};

constexpr std::pair<std::string_view, Role> role_names[] = {
    {"system", Role::system},       {"user", Role::user},      {"human", Role::user},
    {"assistant", Role::assistant}, {"gpt", Role::assistant},  {"chatgpt", Role::assistant},
    {"bot", Role::assistant},       {"model", Role::assistant}};

// A column that is there, and not null.
const Json* column(const Json& row, std::string_view name) {
  const auto found = row.find(name);
  return found == row.end() || found->is_null() ? nullptr : &*found;
}

class Conversation {
 public:
  // False, with the reason in `out`, where the row cannot be used.
  bool add(Role role, const Json& value, std::string_view name) {
    if (value.is_number()) {
      messages_.push_back({role, value.dump()});
    } else if (value.is_string()) {
      messages_.push_back({role, value.get<std::string>()});
    } else {
      out_ = dropped(Drop::not_text,
                     cat("expected text as ", printable(name), ", found ", value.type_name()));
      return false;
    }
    return true;
  }

  bool add_turns(const Json& turns, const char* speaker, const char* said) {
    if (!turns.is_array()) {
      out_ = dropped(Drop::not_text, cat("expected a list of messages, found ", turns.type_name()));
      return false;
    }
    for (const Json& turn : turns) {
      if (!turn.is_object() || !turn.contains(speaker) || !turn.contains(said)) {
        out_ = dropped(Drop::not_text, cat("expected messages with '", speaker, "' and '", said,
                                           "', found ", turn.type_name()));
        return false;
      }
      const Json& name = turn[speaker];
      const auto role = std::ranges::find_if(role_names, [&](const auto& known) {
        return name.is_string() && name.get_ref<const std::string&>() == known.first;
      });
      if (role == std::end(role_names)) {
        out_ = dropped(Drop::unknown_role, cat("expected system, user or assistant, found ",
                                               printable(name.dump(-1, ' ', true))));
        return false;
      }
      if (!add(role->second, turn[said], said)) return false;
    }
    return true;
  }

  RenderedRow finish() {
    if (out_.dropped) return std::move(out_);
    bool answered = false;
    for (const Message& message : messages_) {
      if (message.role != Role::system && clean_text(message.text).empty())
        return dropped(Drop::empty, "expected text in every message, found none");
      answered |= message.role == Role::assistant;
    }
    if (!answered) return dropped(Drop::no_answer, "expected an answer, found none");
    ChatText chat = chat_text(messages_);
    out_.piece.text = std::move(chat.text);
    for (const ChatText::Answer& answer : chat.answers)
      out_.piece.learned.push_back({answer.begin, answer.end});
    return std::move(out_);
  }

 private:
  std::vector<Message> messages_;
  RenderedRow out_;
};

RenderedRow plain_text(const Json& value) {
  if (!value.is_string())
    return dropped(Drop::not_text, cat("expected text as 'text', found ", value.type_name()));
  RenderedRow out;
  out.piece.text = value.get<std::string>();
  if (out.piece.text.find_first_not_of(" \t\r\n") == std::string::npos)
    return dropped(Drop::empty, "expected text, found none");
  while (!out.piece.text.ends_with("\n\n")) out.piece.text += '\n';
  out.piece.learned = {{0, out.piece.text.size()}};
  return out;
}

// A question and what answers it: the first of two columns that there is.
struct Pair {
  const char *question, *answer, *other_answer;
};
constexpr Pair pairs[] = {{"prompt", "response", "completion"},
                          {"instruction", "output", "response"},
                          {"question", "solution", "answer"}};

class Recogniser final : public RowRenderer {
 public:
  RenderedRow render(std::string_view row) const override {
    RenderedRow out;
    const Json values = parse_row(row, out);
    if (values.is_null()) return out;
    Conversation conversation;
    for (const auto& [list, speaker, said] :
         {std::array{"conversations", "from", "value"}, std::array{"messages", "role", "content"}})
      if (const Json* const turns = column(values, list)) {
        const Json* const system = column(values, "system");
        if (!system || conversation.add(Role::system, *system, "system"))
          conversation.add_turns(*turns, speaker, said);
        return conversation.finish();
      }
    for (const Pair& pair : pairs) {
      const Json *const question = column(values, pair.question),
                        *answer = column(values, pair.answer);
      if (!answer) answer = column(values, pair.other_answer);
      if (!question || !answer) continue;
      add_pair(conversation, values, *question, *answer);
      return conversation.finish();
    }
    if (const Json* const text = column(values, "text")) return plain_text(*text);
    std::string found;
    for (const auto& [name, value] : values.items()) found += cat(found.empty() ? "" : ", ", name);
    return dropped(Drop::unknown_columns,
                   cat("expected columns of a chat or 'text', found ", printable(found)));
  }

  bool wants(std::string_view column) const override {
    return std::ranges::find(known_columns, column) != std::end(known_columns);
  }

  std::string identity() const override { return "recognised, version 1"; }

 private:
  static void add_pair(Conversation& conversation, const Json& values, const Json& question,
                       const Json& answer) {
    const Json* const system = column(values, "system");
    const Json* const input = column(values, "instruction") ? column(values, "input") : nullptr;
    if (system && !conversation.add(Role::system, *system, "system")) return;
    bool added = false;
    if (input && input->is_string() && question.is_string() &&
        !input->get_ref<const std::string&>().empty())
      added = conversation.add(
          Role::user, cat(question.get<std::string>(), "\n", input->get<std::string>()), "input");
    else
      added = conversation.add(Role::user, question, "question");
    if (added) conversation.add(Role::assistant, answer, "answer");
  }
};

}  // namespace

std::unique_ptr<RowRenderer> recognising_renderer() { return std::make_unique<Recogniser>(); }

}  // namespace deltasane::corpus
