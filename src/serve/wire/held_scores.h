// What is said of tokens, until their text is given out: text that may become a stop text is held back,
// and left out where it becomes one.
#pragma once

#include <deque>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"
#include "text/utf8_stream.h"

namespace deltasane::serve {

template <class Score>
class HeldScores {
 public:
  explicit HeldScores(const Tokenizer& tokenizer) : tokenizer_(&tokenizer) {}

  // `piece` is given out with this token. Returns the scores of tokens of which some text is out.
  std::vector<Score> add(int32_t token, Score score, std::string_view piece) {
    held_.push_back({decoded_, std::move(score)});
    decoded_ += characters_.feed(tokenizer_->bytes_of(token)).size();
    given_out_ += piece.size();
    return take_before(given_out_);
  }
  std::vector<Score> take_all() { return take_before(SIZE_MAX); }

 private:
  struct Held {
    size_t begin;  // of its text
    Score score;
  };
  std::vector<Score> take_before(size_t end) {
    std::vector<Score> scores;
    for (; !held_.empty() && held_.front().begin < end; held_.pop_front())
      scores.push_back(std::move(held_.front().score));
    return scores;
  }

  const Tokenizer* tokenizer_;
  Utf8Stream characters_;
  size_t decoded_ = 0, given_out_ = 0;  // bytes of the text
  std::deque<Held> held_;
};

}  // namespace deltasane::serve
