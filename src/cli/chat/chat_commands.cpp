#include "cli/chat/chat_commands.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>

#include "base/words/nearest_word.h"
#include "cli/counted.h"
#include "text/chat/world_chat.h"

namespace deltasane::cli {
namespace {

struct ChatCommand {
  std::string_view name, argument, help;  // an argument in brackets may be left out
  Afterwards (*run)(ChatSession& session, const std::string& argument);
};

template <class Number>
Number number_of(std::string_view command, const std::string& text, Number least) {
  Number number{};
  const char* const end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || at != end || number < least)
    fail(Fault::usage, command, ": expected a number from ", least, " to ",
         std::numeric_limits<Number>::max(), ", found '", text, "'");
  return number;
}

Afterwards chat_help(ChatSession&, const std::string&) {
  fmt::print("{}", chat_command_help());
  return Afterwards::next_line;
}

Afterwards chat_retry(ChatSession& session, const std::string&) {
  if (session.conversation.turns_kept() > 0)
    session.retry();
  else
    fmt::print("(there is no answer to retry)\n");
  return Afterwards::next_line;
}

Afterwards chat_undo(ChatSession& session, const std::string&) {
  if (const auto question = session.conversation.undo())
    fmt::print("(taken back: {})\n", *question);
  else
    fmt::print("(there is no turn to take back)\n");
  return Afterwards::next_line;
}

Afterwards chat_system(ChatSession& session, const std::string& text) {
  if (!text.empty()) {
    session.conversation.set_system(text);
    fmt::print("(a new conversation begins)\n");
  } else {
    const std::string& now = session.conversation.settings().system;
    fmt::print("({})\n", now.empty() ? "none" : now);
  }
  return Afterwards::next_line;
}

Afterwards chat_seed(ChatSession& session, const std::string& text) {
  if (!text.empty()) session.conversation.set_seed(number_of<uint64_t>("/seed", text, 0));
  fmt::print("(seed {})\n", session.conversation.seed());
  return Afterwards::next_line;
}

Afterwards chat_save(ChatSession& session, const std::string& path) {
  session.conversation.save(path, session.model_name);
  fmt::print("(kept in {})\n", path);
  return Afterwards::next_line;
}

Afterwards chat_load(ChatSession& session, const std::string& path) {
  session.conversation.load(path, session.model_name);
  fmt::print("({} remembered)\n", counted(session.conversation.state().position, "token"));
  return Afterwards::next_line;
}

Afterwards chat_tokens(ChatSession& session, const std::string& text) {
  if (!text.empty()) session.conversation.set_tokens(number_of<int64_t>("/tokens", text, 1));
  fmt::print("({} in the state; last turn: {} read, {} written;\nat most {} in an answer)\n",
             counted(session.conversation.state().position, "token"), session.last.prompt_tokens,
             session.last.tokens, session.conversation.settings().tokens);
  return Afterwards::next_line;
}

Afterwards chat_state(ChatSession& session, const std::string&) {
  const SequenceState& now = session.conversation.state();
  fmt::print("({} read, largest |S| {:.4g}, {})\n", counted(now.position, "token"),
             scan_state(now).largest, to_string(session.sane));
  return Afterwards::next_line;
}

Afterwards chat_reset(ChatSession& session, const std::string&) {
  session.conversation.reset();
  const bool told = !session.conversation.settings().system.empty();
  fmt::print("(forgotten{})\n", told ? "; the system message stays" : "");
  return Afterwards::next_line;
}

Afterwards chat_quit(ChatSession&, const std::string&) { return Afterwards::leave; }

constexpr ChatCommand chat_commands[] = {
    {"/help", "", "this list", chat_help},
    {"/retry", "", "another answer", chat_retry},
    {"/undo", "", "take the last turn back", chat_undo},
    {"/reset", "", "forget the conversation", chat_reset},
    {"/system", "[TEXT]", "show or set the\nsystem message", chat_system},
    {"/seed", "[N]", "show or set the\nrandom seed", chat_seed},
    {"/tokens", "[N]", "show token counts, or set\nthe limit of an answer", chat_tokens},
    {"/state", "", "size of the state", chat_state},
    {"/save", "FILE", "keep the state", chat_save},
    {"/load", "FILE", "resume from one", chat_load},
    {"/quit", "", "leave; also Ctrl-D", chat_quit},
};

// Lines after the first begin below it: a row is at most 40 letters.
std::string indented(std::string_view text, size_t columns) {
  std::string out;
  for (const char c : text) out += c == '\n' ? "\n" + std::string(columns, ' ') : std::string(1, c);
  return out;
}

const ChatCommand& command_named(std::string_view name) {
  for (const ChatCommand& one : chat_commands)
    if (one.name == name) return one;
  const auto nearest = nearest_word(name, chat_command_names());
  fail(Fault::usage, "unknown command '", name, "'; ",
       nearest ? cat("did you mean ", *nearest, "? ") : "",
       "/help lists them, and a space in front makes it a message");
}

}  // namespace

bool is_chat_command(const std::string& line) {
  return line.size() > 1 && line[0] == '/' && line[1] >= 'a' && line[1] <= 'z' &&
         line.find('\n') == line.npos;
}

Afterwards run_chat_command(const std::string& line, ChatSession& session) {
  const size_t space = line.find(' ');
  const ChatCommand& command = command_named(std::string_view(line).substr(0, space));
  const std::string rest = space == std::string::npos ? "" : clean_text(line.substr(space));
  const bool needs = !command.argument.empty() && command.argument[0] != '[';
  if (needs && rest.empty())
    fail(Fault::usage, command.name, ": expected ", command.argument, ", found nothing");
  if (command.argument.empty() && !rest.empty())
    fail(Fault::usage, command.name, ": expected nothing after it, found '", rest, "'");
  return command.run(session, rest);
}

std::vector<std::string> chat_command_names() {
  std::vector<std::string> names;
  for (const ChatCommand& one : chat_commands) names.emplace_back(one.name);
  return names;
}

std::string chat_command_help() {
  std::string all;
  for (const ChatCommand& one : chat_commands)
    all += fmt::format("{:<14} {}\n", fmt::format("{} {}", one.name, one.argument),
                       indented(one.help, 15));
  return all +
         "Alt-Enter, or \\ at a line's end, begins\nanother line. Ctrl-C stops an answer;\n"
         "twice, or Ctrl-D, it leaves.\n";
}

}  // namespace deltasane::cli
