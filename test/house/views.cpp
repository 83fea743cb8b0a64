// views_of: one pass over a source that classifies each character as code, comment or literal.
#include "base/cat.h"
#include "house/text.h"

namespace deltasane::house {

namespace {

class Splitter {
 public:
  explicit Splitter(std::string_view source) : source_(source) {
    std::string blank(source);
    for (char& c : blank)
      if (c != '\n') c = ' ';
    views_ = {blank, blank, blank, blank};
  }

  Views split() {
    while (at_ < source_.size()) {
      if (starts("//"))
        comment(source_.find('\n', at_), 0);
      else if (starts("/*"))
        comment(source_.find("*/", at_ + 2), 2);
      else if (starts("R\"") && !after_word())
        raw_literal();
      else if (source_[at_] == '"' || (source_[at_] == '\'' && !after_word()))
        literal(source_[at_]);
      else
        code(1);
    }
    return views_;
  }

 private:
  bool starts(std::string_view part) const { return source_.substr(at_).starts_with(part); }
  bool after_word() const { return at_ > 0 && is_word_character(source_[at_ - 1]); }

  void code(size_t count) {
    for (; count > 0 && at_ < source_.size(); --count, ++at_)
      views_.code[at_] = views_.includes[at_] = source_[at_];
  }

  void inside(size_t count) {
    for (; count > 0 && at_ < source_.size(); --count, ++at_)
      views_.includes[at_] = views_.literals[at_] = source_[at_];
  }

  void comment(size_t end, size_t closing) {
    end = end == source_.npos ? source_.size() : end + closing;
    for (; at_ < end; ++at_) views_.comments[at_] = source_[at_];
  }

  void literal(char quote) {
    code(1);
    while (at_ < source_.size() && source_[at_] != quote && source_[at_] != '\n')
      inside(source_[at_] == '\\' ? 2 : 1);
    code(1);
  }

  void raw_literal() {
    const size_t open = source_.find('(', at_);
    if (open == source_.npos) return code(source_.size());
    const std::string closing = cat(")", source_.substr(at_ + 2, open - at_ - 2), "\"");
    const size_t close = source_.find(closing, open);
    code(2);
    inside((close == source_.npos ? source_.size() : close + closing.size() - 1) - at_);
    code(1);
  }

  std::string_view source_;
  Views views_;
  size_t at_ = 0;
};

}  // namespace

Views views_of(std::string_view source) { return Splitter(source).split(); }

}  // namespace deltasane::house
