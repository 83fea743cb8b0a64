// Turns sampled tokens into text: whole characters, up to a stop text, an end of the document or a
// number of tokens.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/text_stop.h"
#include "text/tokenizer.h"
#include "text/utf8_stream.h"

namespace deltasane {

enum class Ended { end_of_document, stop_text, token_limit, overflow, cancelled };
std::string_view name_of(Ended ended);

// Where a text ends.
struct TextLimits {
  std::vector<std::string> stops{};
  int64_t tokens = 256;      // at most
  bool stops_at_end = true;  // false: a token that ends a document does not end the text
  std::vector<int32_t> stop_tokens{};  // further tokens that end the text, and are no part of it
};

class TextWriter {
 public:
  TextWriter(const Tokenizer& tokenizer, const TextLimits& limits)
      : tokenizer_(&tokenizer), stop_(limits.stops), limits_(limits) {}

  // The text that may be shown after this token; at the end with all that was held back.
  std::string take(int32_t token);
  std::string end(Ended how);  // where there is no further token

  int64_t tokens() const { return tokens_; }
  int64_t limit() const { return limits_.tokens; }
  std::string_view stop() const { return stop_.stop(); }  // the text that ended it
  bool may_stop() const { return stop_.holds() || stop_.stopped(); }  // a stop text has begun
  const std::optional<Ended>& ended() const { return ended_; }

 private:
  const Tokenizer* tokenizer_;
  Utf8Stream characters_;
  TextStop stop_;
  TextLimits limits_;
  int64_t tokens_ = 0;
  std::optional<Ended> ended_;
};

}  // namespace deltasane
