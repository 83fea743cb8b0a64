// Shows an answer as it is written. On a terminal thoughts are dimmed and the speed follows;
// elsewhere the text is printed as it is.
#pragma once

#include <string>
#include <string_view>

#include "cli/chat/conversation.h"
#include "text/chat/thought_reader.h"

namespace deltasane::cli {

class AnswerDisplay {
 public:
  // `beginning`: what the prompt has of the answer (ChatTemplate::reply_beginning).
  AnswerDisplay(bool terminal, std::string_view beginning);
  ~AnswerDisplay();  // letters are normal again, also after an error

  void add(std::string_view piece);
  void end(const Answer& answer);

 private:
  void print(const ThoughtReader::Piece& piece);

  bool terminal_, has_thoughts_ = false, dimmed_ = false;
  ThoughtReader reader_;
};

}  // namespace deltasane::cli
