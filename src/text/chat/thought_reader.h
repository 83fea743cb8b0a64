// Splits an answer as it is written into thoughts and what follows them: <think>...</think>, where
// the prompt may have begun the thoughts already. Marks may be cut anywhere, and the end of thoughts
// may never come. Space in front of thoughts and of the answer is dropped.
#pragma once

#include <string>
#include <string_view>

namespace deltasane {

class ThoughtReader {
 public:
  struct Piece {
    std::string thoughts, answer;
  };
  // `beginning`: what the prompt has of the answer (ChatTemplate::reply_beginning).
  explicit ThoughtReader(std::string_view beginning);

  Piece feed(std::string_view text);
  Piece finish();  // what was held back
  bool is_thinking() const { return state_ == State::thinking; }

 private:
  enum class State { before, thinking, before_answer, answer };
  bool drop_space();  // false: nothing is left

  State state_ = State::before;
  bool has_thoughts_ = false;
  std::string held_;
};

}  // namespace deltasane
