#include "text/chat/thought_reader.h"

#include <algorithm>

namespace deltasane {
namespace {

constexpr std::string_view begin_mark = "<think>", end_mark = "</think>";

// The longest end of the text that may become the mark.
size_t partial_mark(std::string_view text, std::string_view mark) {
  for (size_t length = std::min(text.size(), mark.size() - 1); length > 0; --length)
    if (mark.starts_with(text.substr(text.size() - length))) return length;
  return 0;
}

}  // namespace

ThoughtReader::ThoughtReader(std::string_view beginning) { feed(beginning); }

bool ThoughtReader::drop_space() {
  held_.erase(0, std::min(held_.find_first_not_of(" \t\r\n"), held_.size()));
  return !held_.empty();
}

ThoughtReader::Piece ThoughtReader::feed(std::string_view text) {
  held_ += text;
  Piece piece;
  if (state_ == State::before) {
    if (!drop_space() || (held_.size() < begin_mark.size() && begin_mark.starts_with(held_)))
      return piece;
    state_ = State::answer;
    if (held_.starts_with(begin_mark)) {
      held_.erase(0, begin_mark.size());
      state_ = State::thinking;
    }
  }
  if (state_ == State::thinking) {
    if (!has_thoughts_ && !drop_space()) return piece;
    const size_t end = held_.find(end_mark);
    const size_t known = end == held_.npos ? held_.size() - partial_mark(held_, end_mark) : end;
    piece.thoughts = held_.substr(0, known);
    has_thoughts_ = has_thoughts_ || known > 0;
    held_.erase(0, end == held_.npos ? known : end + end_mark.size());
    if (end == std::string::npos || end != known) return piece;
    state_ = State::before_answer;
  }
  if (state_ == State::before_answer) {
    if (!drop_space()) return piece;
    state_ = State::answer;
  }
  piece.answer = std::move(held_);
  held_.clear();
  return piece;
}

ThoughtReader::Piece ThoughtReader::finish() {
  Piece piece;
  (state_ == State::thinking ? piece.thoughts : piece.answer) = std::move(held_);
  held_.clear();
  return piece;
}

}  // namespace deltasane
