#include "infer/engine/text_writer.h"

#include <algorithm>

namespace deltasane {

std::string_view name_of(Ended ended) {
  constexpr std::string_view names[]{"end of document", "stop text", "token limit", "overflow",
                                     "cancelled"};
  return names[size_t(ended)];
}

std::string TextWriter::take(int32_t token) {
  ++tokens_;
  if ((limits_.stops_at_end && tokenizer_->ends_text(token)) ||
      std::ranges::find(limits_.stop_tokens, token) != limits_.stop_tokens.end())
    return end(Ended::end_of_document);
  std::string text = stop_.feed(characters_.feed(tokenizer_->bytes_of(token)));
  if (stop_.stopped())
    ended_ = Ended::stop_text;
  else if (tokens_ >= limits_.tokens)
    text += end(Ended::token_limit);
  return text;
}

std::string TextWriter::end(Ended how) {
  ended_ = how;
  std::string text = stop_.feed(characters_.finish());
  text += stop_.finish();
  return text;
}

}  // namespace deltasane
