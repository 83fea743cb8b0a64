// A line that is being typed: text, a cursor and keys. It knows no terminal: bytes go in, and
// line_drawing.h shows what they made.
//
// What a terminal pastes between ESC [200~ and ESC [201~ (bracketed paste) is inserted as it is,
// with its line ends as \n. Alt-Enter, and Enter after a backslash, begin another line; Enter alone
// ends the input.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace deltasane::cli {

class LineEditor {
 public:
  // `history`: earlier lines, the oldest first; must outlive the editor.
  explicit LineEditor(const std::vector<std::string>& history);

  enum class Outcome {
    editing,
    entered,  // Enter
    ended,    // Ctrl-D in an empty line
    cleared,  // Ctrl-L: the screen is to be cleared
  };
  Outcome feed(char byte);

  const std::string& text() const { return text_; }
  size_t cursor() const { return cursor_; }  // in bytes
  void move_to_end() { cursor_ = text_.size(); }

  // What Tab may complete the whole text to.
  std::vector<std::string> completions{};

 private:
  enum class State { plain, escape, sequence, paste };

  Outcome take_key(char key);
  void take_sequence();
  void take_paste();
  void insert(std::string_view text);
  void erase(size_t from, size_t to);
  size_t before(size_t at) const;  // the character that ends there
  size_t after(size_t at) const;
  size_t word_before(size_t at) const;
  size_t word_after(size_t at) const;
  size_t row_begin(size_t at) const;  // of the text's own lines
  size_t row_end(size_t at) const;
  void up();
  void down();
  void show(size_t entry);
  void complete();

  const std::vector<std::string>& history_;
  size_t entry_;            // of the history; its size: the line itself
  std::string own_;         // the line itself, while an entry is shown
  std::string text_, cut_;  // cut by Ctrl-K, Ctrl-U or Ctrl-W
  size_t cursor_ = 0;
  State state_ = State::plain;
  std::string held_;  // of an escape sequence or a paste
};

}  // namespace deltasane::cli
