// A conversation at a terminal, as a person has it: typed keys in, rows of the screen out.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <iostream>
#include <utility>

#include "base/io/file.h"
#include "cli/chat/answer_display.h"
#include "cli/terminal/fixture_terminal.h"
#include "cli/terminal/terminal.h"
#include "model/rwkv7/checkpoint/write.h"
#include "model/rwkv7/random.h"
#include "support/scratch.h"

namespace deltasane::cli {
namespace {

using test::TerminalProcess;

constexpr const char* ctrl_c = "\x03";
constexpr const char* ctrl_d = "\x04";
constexpr std::string_view note = "\x1b[2m(";  // below an answer: how many tokens, how fast

class ChatOnTerminal : public testing::TestWithParam<int> {
 protected:
  ChatOnTerminal() {
    write_rwkv7_safetensors(model_, RandomRwkv7({1, 32, 2, 16, 128, 256, 8, 8, 8, 8}, 1),
                            StoredType::f16, {});
  }
  std::vector<std::string> words(const std::vector<std::string>& more) const {
    std::vector<std::string> all{DELTASANE_PROGRAM, "chat", model_,      "--threads", "1",
                                 "--seed",          "1",    "--history", history_};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  // Waits for the prompt, types a line and waits for what follows it.
  static std::string say(TerminalProcess& chat, const std::string& line, std::string_view until) {
    chat.wait_for("User: ");
    chat.type(line + "\r");
    return chat.wait_for(until);
  }
  static void leave(TerminalProcess& chat) {
    chat.wait_for("User: ");
    chat.type(ctrl_d);
    EXPECT_EQ(chat.wait_for_end(), 0) << chat.output();
  }
  int columns() const { return GetParam(); }

  test::Scratch scratch_;
  std::string model_ = scratch_.path() / "model.safetensors", history_;
};
INSTANTIATE_TEST_SUITE_P(Columns, ChatOnTerminal, testing::Values(80, 40));

TEST_P(ChatOnTerminal, LinesAreEditedAndRecalled) {
  TerminalProcess chat(words({"--tokens", "2"}), columns());
  const std::string long_line(60, 'z');
  say(chat, "12+3\x1b[D\x1b[D" + long_line, note);
  chat.wait_for("User: ");
  chat.type("\x1b[A\x01<\r");  // the line before, and a letter in front of it
  chat.wait_for(note);
  leave(chat);
  std::string shown;
  for (const std::string& row : test::rows_shown(chat.output(), columns())) shown += row;
  EXPECT_NE(shown.find("User: 12" + long_line + "+3"), shown.npos) << shown;
  EXPECT_NE(shown.find("User: <12" + long_line + "+3"), shown.npos) << shown;
}

TEST_P(ChatOnTerminal, NothingPastedIsLost) {
  TerminalProcess chat(words({"--tokens", "1"}), columns());
  std::string text;
  for (int i = 0; text.size() < 20'000; ++i) text += "line " + std::to_string(i) + " of a text\n";
  text += "end";
  const auto prompt = [](size_t bytes) {
    return "last turn: " +
           std::to_string(std::string("User: ").size() + bytes +
                          std::string("\n\nAssistant:").size()) +
           " read";
  };
  chat.wait_for("User: ");
  chat.type("\x1b[200~" + text + "\x1b[201~\r");
  chat.wait_for(note);
  say(chat, "/tokens", prompt(text.size()));
  // Without the marks of a paste, as one line that is longer than the kernel's.
  say(chat, "/reset", "(forgotten)");
  say(chat, std::string(9'000, 'x'), note);
  say(chat, "/tokens", prompt(9'000));
  leave(chat);
}

TEST_P(ChatOnTerminal, WhatIsTypedDuringAnAnswerComesAfterIt) {
  TerminalProcess chat(words({"--tokens", "3000"}), columns());
  chat.wait_for("User: ");
  chat.type("1\r/tokens 1\r/reset\r" + std::string(6'000, 'x') + "\r/tokens\r");
  chat.wait_for("last turn: 6018 read");
  leave(chat);
}

TEST_P(ChatOnTerminal, CtrlCStopsTheAnswerAndKeepsTheConversation) {
  TerminalProcess chat(words({"--tokens", "1000000000"}), columns());
  chat.wait_for("User: ");
  chat.type("1\r");
  chat.wait_for("\n");
  chat.wait_for("\\x");  // some of the answer
  chat.type(ctrl_c);
  chat.wait_for(", stopped)");
  say(chat, "/tokens 2", "at most 2");
  say(chat, "/tokens 99999999999999999999", "expected a number from 1 to 9223372036854775807, found");
  EXPECT_NE(say(chat, "/state", "largest").find("tokens read"), std::string::npos);
  EXPECT_EQ(say(chat, "/undo", "taken back: 1").find("no turn"), std::string::npos);
  leave(chat);
}

TEST_P(ChatOnTerminal, CtrlCTwiceLeaves) {
  TerminalProcess chat(words({}), columns());
  chat.wait_for("User: ");
  chat.type("not sent");
  chat.wait_for("not sent");
  chat.type(ctrl_c);
  chat.wait_for("(Ctrl-C again, or Ctrl-D, leaves)");
  chat.wait_for("User: ");
  chat.type(ctrl_c);
  EXPECT_EQ(chat.wait_for_end(), 0) << chat.output();
  EXPECT_EQ(chat.output().find(note), std::string::npos);
}

TEST_P(ChatOnTerminal, CommandsDoWhatTheySay) {
  const std::string state = scratch_.path() / "kept.state";
  TerminalProcess chat(words({"--tokens", "20"}), columns());
  const auto answer_to = [&](const std::string& line) {
    const std::string all = say(chat, line, note);
    return all.substr(0, all.rfind("\n\x1b[2m("));
  };
  const auto read = [&] {
    const std::string all = say(chat, "/tokens", " in the state; last");
    return all.substr(all.rfind('('));
  };
  for (const std::string& row : test::rows_shown(say(chat, "/help", "it leaves."), columns()))
    EXPECT_LE(row.size(), 40u) << row;
  for (const char* line : {"/seed [N]      show or set the\r\n               random seed\r\n",
                           "/system [TEXT] show or set the\r\n               system message\r\n",
                           "/tokens [N]    show token counts, or set\r\n"})
    EXPECT_NE(chat.output().find(line), std::string::npos) << line;
  for (const char* one : {"/retry", "/undo", "/system", "/seed", "/save", "/load", "/tokens"})
    EXPECT_NE(chat.output().find(one), std::string::npos) << one;
  say(chat, "/retry", "(there is no answer to retry)");
  say(chat, "/undo", "no turn to take back");

  const std::string begin = read(), first = answer_to("1");
  const std::string after = read(), second = answer_to("/retry");
  EXPECT_NE(first.substr(first.find('\n')), second.substr(second.find('\n')));
  say(chat, "/undo", "(taken back: 1)");
  EXPECT_EQ(read(), begin);
  say(chat, "/seed 1", "(seed 1)");
  EXPECT_EQ(answer_to("1"), first);
  EXPECT_EQ(read(), after);

  say(chat, "/save " + state, "(kept in ");
  say(chat, "/system Be brief.", "(a new conversation begins)");
  say(chat, "/system", "(Be brief.)");
  say(chat, "/reset", "(forgotten; the system message stays)");
  say(chat, "/system", "(Be brief.)");
  EXPECT_EQ(read(), begin);
  say(chat, "/load " + state, "tokens remembered)");
  EXPECT_EQ(read(), after);

  say(chat, "/sav x", "unknown command '/sav'; did you mean /save? /help lists them");
  say(chat, "/zzzzzz", "unknown command '/zzzzzz'; /help lists them");
  say(chat, "/save", "/save: expected FILE, found nothing");
  say(chat, "/seed x", "/seed: expected a number");
  say(chat, "/load " + scratch_.path().string() + "/none", "none");
  leave(chat);
}

TEST_P(ChatOnTerminal, ControlCharactersOfAModelAreShownAsText) {
  TerminalProcess chat(words({"--tokens", "400", "--top-k", "0", "--top-p", "1"}), columns());
  say(chat, "1", note);
  leave(chat);
  const std::string& all = chat.output();
  EXPECT_NE(all.find("\\x"), all.npos);
  for (size_t i = 0; i < all.size(); ++i) {
    const auto byte = static_cast<unsigned char>(all[i]);
    if (byte == 0x1b)
      EXPECT_EQ(all[i + 1], '[') << i;  // the program's own
    else
      EXPECT_TRUE(byte >= 0x20 || byte == '\n' || byte == '\r' || byte == '\t') << int(byte);
    EXPECT_NE(byte, 0x7f);
  }
}

TEST_P(ChatOnTerminal, SeedsAreFreshUnlessGiven) {
  const auto seed_of = [&] {
    std::vector<std::string> all = words({});
    all.erase(std::ranges::find(all, "--seed"), std::ranges::find(all, "--history"));
    TerminalProcess chat(all, columns());
    const std::string shown = say(chat, "/seed", ")");
    leave(chat);
    return shown.substr(shown.rfind("(seed"));
  };
  EXPECT_NE(seed_of(), seed_of());
}

TEST_P(ChatOnTerminal, LinesAreKeptForTheNextConversation) {
  history_ = scratch_.path() / "folder/history";
  {
    TerminalProcess chat(words({"--tokens", "1"}), columns());
    chat.wait_for("User: ");
    chat.type("\x1b[200~several\nlines\x1b[201~\r");
    chat.wait_for(note);
    leave(chat);
  }
  struct stat found {};
  ASSERT_EQ(::stat(history_.c_str(), &found), 0);
  EXPECT_EQ(found.st_mode & 0777u, 0600u);
  {
    const std::string kept = std::exchange(history_, history_ + "/none/history");
    TerminalProcess chat(words({}), columns());
    history_ = kept;
    chat.wait_for("cannot create the folder: Not a directory;");
    leave(chat);
  }
  TerminalProcess chat(words({"--tokens", "1"}), columns());
  chat.wait_for("User: ");
  chat.type("\x1b[A");
  chat.wait_for("several");
  chat.wait_for("lines");
  chat.type("\r");
  chat.wait_for(note);
  leave(chat);
}

TEST_P(ChatOnTerminal, ThoughtsAreDimmed) {
  TerminalProcess shown(
      [] {
        guard_terminals();
        AnswerDisplay display(true, " <think");
        for (const char* piece : {">\nHow", " many?\n</thi", "nk>\n\n", "Two", ".\x1b[31m"})
          display.add(piece);
        Answer answer;
        answer.tokens = 5, answer.seconds = 2;
        display.end(answer);
      },
      columns());
  EXPECT_EQ(shown.wait_for_end(), 0);
  EXPECT_EQ(shown.output(),
            "\x1b[2mHow many?\r\n\x1b[0m\r\n\r\nTwo.\\x1b[31m\r\n"
            "\x1b[2m(5 tokens at 2.5/s, stopped at the limit of 5 tokens; raise it with /tokens N)\x1b[0m\r\n");
}

TEST_P(ChatOnTerminal, TheTerminalIsLeftAsItWas) {
  TerminalProcess chat({"/bin/sh", "-c",
                        "a=$(stty -g); '" DELTASANE_PROGRAM "' chat '" + model_ +
                            "' --history ''; [ \"$a\" = \"$(stty -g)\" ] && echo the same"},
                       columns());
  leave(chat);
  EXPECT_NE(chat.output().find("the same"), std::string::npos) << chat.output();
}

}  // namespace
}  // namespace deltasane::cli
