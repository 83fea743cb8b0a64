// Builds a solution text: steps, then the answer.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "base/cat.h"
#include "corpus/math/chat.h"

namespace deltasane::corpus {

class Working {
 public:
  Working(Language language, MathStyle style)
      : chinese_(language == Language::chinese), style_(style) {}

  bool chinese() const { return chinese_; }
  bool brief() const { return style_ == MathStyle::brief; }
  bool detailed() const { return style_ == MathStyle::worked; }

  // "12 + 7 = 19", prefixed by the label in the detailed style.
  template <class... Part>
  void step_for(std::string_view label, const Part&... part) {
    if (brief()) return;
    if (detailed() && !label.empty()) text_ += cat(label, chinese_ ? "：" : ": ");
    (append_part(text_, part), ...);
    if (detailed())
      text_ += chinese_ ? "。\n" : ".\n";
    else
      text_ += chinese_ ? "。" : ". ";
  }
  template <class... Part>
  void step(const Part&... part) {
    step_for({}, part...);
  }

  // The text of the solution. Nothing can be added afterwards.
  std::string finish(int64_t answer) {
    if (!brief()) text_ += chinese_ ? "答案是" : "The answer is ";
    if (detailed())
      text_ += cat("\\boxed{", answer, "}");
    else
      append_part(text_, answer);
    if (!brief()) text_ += chinese_ ? "。" : ".";
    return std::move(text_);
  }

 private:
  bool chinese_;
  MathStyle style_;
  std::string text_;
};

}  // namespace deltasane::corpus
