// Splits an answer as it is written into text and calls of functions. Marks may be cut anywhere. A
// block that is no call of a known function is text, letter for letter; so is one that never ends, unless
// there must be a call: then it is a part of one, which is dropped.
// Space around calls is dropped.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "serve/tool/tool.h"

namespace deltasane::serve {

class ToolReader {
 public:
  struct Piece {
    std::string text;
    std::vector<ToolCall> calls;
  };
  explicit ToolReader(std::shared_ptr<const ToolFields> tools);

  Piece feed(std::string_view text);
  Piece finish();  // what was held back
  static std::string_view end_mark(ToolFormat format);

 private:
  std::optional<ToolCall> call_in(std::string_view block) const;
  std::optional<ToolCall> call_in_json(std::string_view block) const;
  std::optional<ToolCall> call_in_tags(std::string_view block) const;

  std::shared_ptr<const ToolFields> tools_;
  bool is_inside_ = false, follows_call_ = false;
  std::string space_;  // in front of the block
  std::string held_;
};

}  // namespace deltasane::serve
