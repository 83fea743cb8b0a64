#include "cli/chat/answer_display.h"

#include <fmt/format.h>
#include <iostream>

#include "cli/counted.h"
#include "cli/terminal/terminal.h"

namespace deltasane::cli {

AnswerDisplay::AnswerDisplay(bool terminal, std::string_view beginning)
    : terminal_(terminal), reader_(beginning) {
  if (!terminal_) std::cout << beginning;
}

AnswerDisplay::~AnswerDisplay() {
  if (dimmed_) set_letters(stdout, Letters::normal);
}

void AnswerDisplay::add(std::string_view piece) {
  if (terminal_)
    print(reader_.feed(piece));
  else
    std::cout << piece << std::flush;
}

void AnswerDisplay::print(const ThoughtReader::Piece& piece) {
  if (!piece.thoughts.empty()) {
    if (!dimmed_) set_letters(stdout, Letters::dimmed);
    dimmed_ = has_thoughts_ = true;
    std::cout << piece.thoughts << std::flush;
  }
  if (piece.answer.empty()) return;
  if (dimmed_) {
    set_letters(stdout, Letters::normal);
    dimmed_ = false;
    if (has_thoughts_) std::cout << "\n\n";
  }
  std::cout << piece.answer << std::flush;
}

void AnswerDisplay::end(const Answer& answer) {
  if (terminal_) print(reader_.finish());
  std::cout << std::endl;
  if (!terminal_) return;
  std::string note =
      "(" + with_rate(counted(answer.tokens, "token"), answer.tokens, answer.seconds);
  if (answer.ended == Ended::cancelled) note += ", stopped";
  if (answer.ended == Ended::token_limit) 
    note += fmt::format(", stopped at the limit of {}; raise it with /tokens N",
                        counted(answer.tokens, "token"));
  set_letters(stdout, Letters::dimmed);
  std::cout << note << ")" << std::flush;
  set_letters(stdout, Letters::normal);
  std::cout << std::endl;
  dimmed_ = false;
}

}  // namespace deltasane::cli
