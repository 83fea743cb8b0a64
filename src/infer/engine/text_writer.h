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

class TextWriter {
 public:
  TextWriter(const Tokenizer& tokenizer, const std::vector<std::string>& stops, int64_t limit)
      : tokenizer_(&tokenizer), stop_(stops), limit_(limit) {}

  // The text that may be shown after this token; at the end with all that was held back.
  std::string take(int32_t token);
  std::string end(Ended how);  // where there is no further token

  int64_t tokens() const { return tokens_; }
  const std::optional<Ended>& ended() const { return ended_; }

 private:
  const Tokenizer* tokenizer_;
  Utf8Stream characters_;
  TextStop stop_;
  int64_t limit_, tokens_ = 0;
  std::optional<Ended> ended_;
};

}  // namespace deltasane
