// For tests of calls: a tokenizer whose template has them, and a text with two.
#pragma once

#include "serve/wire/body.h"
#include "text/byte_tokenizer.h"

namespace deltasane::serve::test {

// Bytes, two of which are the marks of ChatML.
class MarkedBytes final : public Tokenizer {
 public:
  std::string_view name() const override { return "marked"; }
  int32_t vocabulary_size() const override { return 256; }
  std::optional<int32_t> end_of_document() const override { return std::nullopt; }
  std::string_view bytes_of(int32_t id) const override { return bytes_.bytes_of(id); }
  void append_encoded(std::string_view text, std::vector<int32_t>& ids) const override {
    bytes_.append_encoded(text, ids);
  }
  std::optional<int32_t> special_token(std::string_view name) const override {
    return name == "<|im_start|>" ? 1 : 2;
  }
  std::string_view chat_template() const override {
    return "<|im_start|>assistant <|im_end|> enable_thinking '<think>\\n' |trim "
           "<tool_call> <function= <parameter=";
  }

 private:
  ByteTokenizer bytes_;
};

// What the model is made to write.
inline std::string exactly(const std::string& text) { return cat("root ::= ", Json(text).dump(), "\n"); }

inline const std::string two_calls =
    "I look.\n\n<tool_call>\n<function=get_weather>\n<parameter=city>\nRome\n</parameter>\n"
    "<parameter=days>\n2\n</parameter>\n</function>\n</tool_call>\n"
    "<tool_call>\n<function=get_weather>\n</function>\n</tool_call>";

}  // namespace deltasane::serve::test
