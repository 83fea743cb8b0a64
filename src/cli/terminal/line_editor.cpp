#include "cli/terminal/line_editor.h"

#include <algorithm>

namespace deltasane::cli {
namespace {

constexpr std::string_view paste_end = "\x1b[201~";
constexpr size_t longest_sequence = 32;

bool continues_character(char byte) { return (static_cast<unsigned char>(byte) & 0xc0) == 0x80; }
bool is_space(char byte) { return byte == ' ' || byte == '\n' || byte == '\t'; }
constexpr char control(char letter) { return char(letter & 0x1f); }

}  // namespace

LineEditor::LineEditor(const std::vector<std::string>& history)
    : history_(history), entry_(history.size()) {}

LineEditor::Outcome LineEditor::feed(char byte) {
  switch (state_) {
    case State::plain:
      return take_key(byte);
    case State::escape:
      state_ = State::plain;
      if (byte == '[' || byte == 'O') {
        state_ = State::sequence;
        held_ = byte;
      } else if (byte == '\n' || byte == '\r') {
        insert("\n");
      } else if (byte == 'b') {
        cursor_ = word_before(cursor_);
      } else if (byte == 'f') {
        cursor_ = word_after(cursor_);
      } else if (byte == 'd') {
        erase(cursor_, word_after(cursor_));
      } else if (byte == 0x7f || byte == control('H')) {
        erase(word_before(cursor_), cursor_);
      } else if (byte == 0x1b) {
        state_ = State::escape;
      }
      return Outcome::editing;
    case State::sequence:
      held_ += byte;
      // Parameters are 0x20 to 0x3f, and a byte from 0x40 on ends the sequence.
      if (byte >= 0x40 || held_.size() > longest_sequence) take_sequence();
      return Outcome::editing;
    case State::paste:
      held_ += byte;
      if (byte == paste_end.back() && held_.ends_with(paste_end)) take_paste();
      return Outcome::editing;
  }
  return Outcome::editing;
}

LineEditor::Outcome LineEditor::take_key(char key) {
  switch (key) {
    case '\r':
    case '\n':
      if (cursor_ == 0 || text_[cursor_ - 1] != '\\') return Outcome::entered;
      erase(cursor_ - 1, cursor_);
      insert("\n");
      break;
    case control('['):
      state_ = State::escape;
      break;
    case control('D'):
      if (text_.empty()) return Outcome::ended;
      erase(cursor_, after(cursor_));
      break;
    case control('L'):
      return Outcome::cleared;
    case control('A'):
      cursor_ = row_begin(cursor_);
      break;
    case control('E'):
      cursor_ = row_end(cursor_);
      break;
    case control('B'):
      cursor_ = before(cursor_);
      break;
    case control('F'):
      cursor_ = after(cursor_);
      break;
    case control('P'):
      up();
      break;
    case control('N'):
      down();
      break;
    case control('H'):
    case 0x7f:
      erase(before(cursor_), cursor_);
      break;
    case control('K'):
    case control('U'): {
      const size_t from = key == control('K') ? cursor_ : row_begin(cursor_);
      const size_t to = key == control('K') ? row_end(cursor_) : cursor_;
      cut_ = text_.substr(from, to - from);
      erase(from, to);
      break;
    }
    case control('W'): {
      const size_t from = word_before(cursor_);
      cut_ = text_.substr(from, cursor_ - from);
      erase(from, cursor_);
      break;
    }
    case control('Y'):
      insert(cut_);
      break;
    case '\t':
      complete();
      break;
    default:
      if (static_cast<unsigned char>(key) >= 0x20) insert({&key, 1});
  }
  return Outcome::editing;
}

void LineEditor::take_sequence() {
  const std::string sequence = std::move(held_);
  held_.clear();
  state_ = State::plain;
  const char key = sequence.back();
  const bool by_word = sequence.find(";5") != sequence.npos || sequence.find(";3") != sequence.npos;
  if (sequence == "[200~") {
    state_ = State::paste;
  } else if (key == 'A') {
    up();
  } else if (key == 'B') {
    down();
  } else if (key == 'C') {
    cursor_ = by_word ? word_after(cursor_) : after(cursor_);
  } else if (key == 'D') {
    cursor_ = by_word ? word_before(cursor_) : before(cursor_);
  } else if (key == 'H' || sequence == "[1~" || sequence == "[7~") {
    cursor_ = row_begin(cursor_);
  } else if (key == 'F' || sequence == "[4~" || sequence == "[8~") {
    cursor_ = row_end(cursor_);
  } else if (sequence == "[3~") {
    erase(cursor_, after(cursor_));
  }
}

void LineEditor::take_paste() {
  held_.resize(held_.size() - paste_end.size());
  std::string pasted;
  for (size_t i = 0; i < held_.size(); ++i) {
    if (held_[i] == '\n' && i > 0 && held_[i - 1] == '\r') continue;
    pasted += held_[i] == '\r' ? '\n' : held_[i];
  }
  held_.clear();
  state_ = State::plain;
  insert(pasted);
}

void LineEditor::insert(std::string_view text) {
  text_.insert(cursor_, text);
  cursor_ += text.size();
}

void LineEditor::erase(size_t from, size_t to) {
  text_.erase(from, to - from);
  cursor_ = from;
}

size_t LineEditor::before(size_t at) const {
  if (at > 0) --at;
  while (at > 0 && continues_character(text_[at])) --at;
  return at;
}

size_t LineEditor::after(size_t at) const {
  if (at < text_.size()) ++at;
  while (at < text_.size() && continues_character(text_[at])) ++at;
  return at;
}

size_t LineEditor::word_before(size_t at) const {
  while (at > 0 && is_space(text_[at - 1])) --at;
  while (at > 0 && !is_space(text_[at - 1])) --at;
  return at;
}

size_t LineEditor::word_after(size_t at) const {
  while (at < text_.size() && is_space(text_[at])) ++at;
  while (at < text_.size() && !is_space(text_[at])) ++at;
  return at;
}

size_t LineEditor::row_begin(size_t at) const {
  while (at > 0 && text_[at - 1] != '\n') --at;
  return at;
}

size_t LineEditor::row_end(size_t at) const { return std::min(text_.find('\n', at), text_.size()); }

// Through the lines of a text of several, then through the history.
void LineEditor::up() {
  const size_t begin = row_begin(cursor_);
  if (begin > 0) {
    const size_t above = row_begin(begin - 1);
    cursor_ = std::min(above + (cursor_ - begin), begin - 1);
    while (cursor_ > above && continues_character(text_[cursor_])) --cursor_;
  } else if (entry_ > 0) {
    show(entry_ - 1);
  }
}

void LineEditor::down() {
  const size_t end = row_end(cursor_);
  if (end < text_.size()) {
    cursor_ = std::min(end + 1 + (cursor_ - row_begin(cursor_)), row_end(end + 1));
    while (cursor_ > end + 1 && cursor_ < text_.size() && continues_character(text_[cursor_]))
      --cursor_;
  } else if (entry_ < history_.size()) {
    show(entry_ + 1);
  }
}

void LineEditor::show(size_t entry) {
  if (entry_ == history_.size()) own_ = text_;
  entry_ = entry;
  text_ = entry == history_.size() ? own_ : history_[entry];
  move_to_end();
}

// As far as all that begin with the text agree.
void LineEditor::complete() {
  std::string common;
  bool found = false;
  for (const std::string& one : completions) {
    if (text_.empty() || !one.starts_with(text_)) continue;
    if (!found) common = one, found = true;
    size_t same = 0;
    while (same < std::min(common.size(), one.size()) && common[same] == one[same]) ++same;
    common.resize(same);
  }
  if (!found) return;
  text_ = common;
  move_to_end();
}

}  // namespace deltasane::cli
