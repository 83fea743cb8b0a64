#include "cli/terminal/line_editor.h"

#include <gtest/gtest.h>

#include "cli/terminal/fixture_terminal.h"
#include "cli/terminal/line_drawing.h"

namespace deltasane::cli {
namespace {

constexpr const char *left = "\x1b[D", *right = "\x1b[C", *up = "\x1b[A", *down = "\x1b[B";

struct Typed {
  std::vector<std::string> history{};
  LineEditor editor{history};

  explicit Typed(std::vector<std::string> earlier = {})
      : history(std::move(earlier)), editor(history) {}
  LineEditor::Outcome keys(std::string_view bytes) {
    auto outcome = LineEditor::Outcome::editing;
    for (const char byte : bytes) outcome = editor.feed(byte);
    return outcome;
  }
  const std::string& text() const { return editor.text(); }
};

std::string edited(std::string_view bytes) {
  Typed typed;
  EXPECT_EQ(typed.keys(bytes), LineEditor::Outcome::editing);
  return typed.text();
}

TEST(LineEditor, EditsWhatIsTyped) {
  EXPECT_EQ(edited("abc"), "abc");
  EXPECT_EQ(edited("abc\x7f"), "ab");
  EXPECT_EQ(edited(std::string("abd") + left + "c"), "abcd");
  EXPECT_EQ(edited(std::string("abd") + left + left + right + "c"), "abcd");
  EXPECT_EQ(edited(std::string("xabc") + "\x1b[H\x1b[3~" + "\x1b[Fd"), "abcd");
  EXPECT_EQ(edited("bc\x01"
                   "a\x05"
                   "d"),
            "abcd");
  EXPECT_EQ(edited("ab cd\x17"
                   "ef"),
            "ab ef");
  EXPECT_EQ(edited("ab cd\x17\x01\x19"), "cdab ");
  EXPECT_EQ(edited(std::string("abcd") + left + left + "\x0b"), "ab");
  EXPECT_EQ(edited(std::string("abcd") + left + left + "\x15"), "cd");
  EXPECT_EQ(edited("ab cd\x1b[1;5Dx"), "ab xcd");
  EXPECT_EQ(edited("ab cd\x1b"
                   "bx"),
            "ab xcd");
}

TEST(LineEditor, MovesByWholeCharacters) {
  EXPECT_EQ(edited(std::string("aé世") + left + "x"), "aéx世");
  EXPECT_EQ(edited("aé世\x7f\x7f"), "a");
  EXPECT_EQ(edited(std::string("é\x01") + right + "x"), "éx");
}

TEST(LineEditor, EndsWithEnterOrInAnEmptyLine) {
  Typed typed;
  EXPECT_EQ(typed.keys("ab\n"), LineEditor::Outcome::entered);
  EXPECT_EQ(typed.text(), "ab");
  EXPECT_EQ(Typed().keys("\x04"), LineEditor::Outcome::ended);
  EXPECT_EQ(edited("ab\x01\x04"), "b");
}

TEST(LineEditor, HasSeveralLines) {
  EXPECT_EQ(edited("a\x1b\nb"), "a\nb");
  EXPECT_EQ(edited("a\\\nb"), "a\nb");
  EXPECT_EQ(edited(std::string("ab\x1b\ncd") + up + "x"), "abx\ncd");
  EXPECT_EQ(edited(std::string("ab\x1b\ncd") + up + left + down + "x"), "ab\ncxd");
  EXPECT_EQ(edited("ab\x1b\ncd\x01x"), "ab\nxcd");
}

TEST(LineEditor, TakesAPasteAsItIs) {
  EXPECT_EQ(edited("<\x1b[200~a\r\nb\rc\n\td\x03\x1b[201~>"), "<a\nb\nc\n\td\x03>");
  // Nothing in a paste is a key, and nothing ends it but its end.
  EXPECT_EQ(edited("\x1b[200~a\x1b[D\x1b[201b~\x1b[201~"), "a\x1b[D\x1b[201b~");
}

TEST(LineEditor, WalksThroughTheHistory) {
  Typed typed({"one", "two\nlines"});
  typed.keys(std::string("own") + up);
  EXPECT_EQ(typed.text(), "two\nlines");
  typed.keys(std::string(up) + up);
  EXPECT_EQ(typed.text(), "one");
  typed.keys(up);
  EXPECT_EQ(typed.text(), "one");
  typed.keys(std::string(down) + down);
  EXPECT_EQ(typed.text(), "own");
}

TEST(LineEditor, CompletesAsFarAsAllAgree) {
  Typed typed;
  typed.editor.completions = {"/save", "/seed", "/system", "/undo"};
  typed.keys("/u\t");
  EXPECT_EQ(typed.text(), "/undo");
  typed.keys("\x15/s\t");
  EXPECT_EQ(typed.text(), "/s");
  typed.keys("a\t");
  EXPECT_EQ(typed.text(), "/save");
  typed.keys("\x15z\t");
  EXPECT_EQ(typed.text(), "z");
}

TEST(LineDrawing, WrapsAtTheTerminalsWidth) {
  const std::string text = "abcdefghijklmnopqrstuvwxyz";
  LineDrawing drawing;
  const std::string first = drawing.draw("> ", text, text.size(), {10, 24});
  const std::vector<std::string> wanted = {"> abcdefgh", "ijklmnopqr", "stuvwxyz"};
  EXPECT_EQ(test::rows_shown(first, 10), wanted);
  // Drawn over what was there, wherever the cursor was.
  const std::string second = drawing.draw("> ", "ab\ncd", 1, {10, 24});
  EXPECT_EQ(test::rows_shown(first + second, 10), (std::vector<std::string>{"> ab", "cd"}));
  // A full row: the cursor is at the beginning of the next.
  const std::string third = drawing.draw("> ", "abcdefgh", 8, {10, 24});
  EXPECT_EQ(test::rows_shown(first + second + third + "x", 10),
            (std::vector<std::string>{"> abcdefgh", "x"}));
}

TEST(LineDrawing, ShowsTheRowsAroundTheCursor) {
  std::string text;
  for (int i = 0; i < 100; ++i) text += "row " + std::to_string(i) + "\n";
  LineDrawing drawing;
  const auto rows = test::rows_shown(drawing.draw("> ", text, text.size(), {40, 6}), 40);
  EXPECT_EQ(rows, (std::vector<std::string>{"row 96", "row 97", "row 98", "row 99", ""}));
  const auto top = test::rows_shown(LineDrawing().draw("> ", text, 0, {40, 6}), 40);
  EXPECT_EQ(top, (std::vector<std::string>{"> row 0", "row 1", "row 2", "row 3", "row 4"}));
  EXPECT_EQ(test::rows_shown(drawing.finish("> ", text, {40, 6}), 40).size(), 102u);
}

TEST(LineDrawing, ShowsControlCharactersAsText) {
  const auto rows = test::rows_shown(LineDrawing().draw("> ", "a\x1b\x07z\xff", 0, {40, 6}), 40);
  EXPECT_EQ(rows, (std::vector<std::string>{"> a\\x1b\\x07z\xef\xbf\xbd"}));
}

}  // namespace
}  // namespace deltasane::cli
