#include "text/vocabulary/fixture_vocabulary.h"

#include <algorithm>

#include "base/cat.h"
#include "text/utf8.h"
#include "text/vocabulary/gguf_tokens.h"

namespace deltasane::test {
namespace {

std::string literal(std::string_view token) {
  if (!valid_utf8(token)) return cat("b'", gguf_escaped(token), "'");
  std::string text;
  for (const char c : token)  // raw characters stay raw in text
    text += uint8_t(c) < 0x80 ? gguf_escaped({&c, 1}) : std::string(1, c);
  return cat("'", text, "'");
}

char32_t random_scalar(Random& random) {
  for (;;) {
    const auto bits = 7 + random.below(15);  // as many short ones as long ones
    const auto code_point = char32_t(random.below(uint64_t{1} << bits));
    if (unicode_scalar(code_point)) return code_point;
  }
}

}  // namespace

std::vector<std::string> small_tokens() {
  std::vector<std::string> tokens{""};
  for (int byte = 0; byte < 256; ++byte) tokens.emplace_back(1, char(byte));
  for (const char* token : {"a ",
                            "aa",
                            "ab",
                            "abcdef",
                            "abcd",
                            "b'",
                            "' '",
                            "\"\"",
                            "it's",
                            "\\n",
                            "\n\n",
                            "\r\n",
                            "\t\t\t",
                            "the",
                            " the",
                            " then",
                            "there",
                            " in",
                            "ing",
                            "12",
                            "123",
                            "1234",
                            "  ",
                            "    ",
                            "        ",
                            "\xC3\xA4",
                            "\xC2\x80",
                            "\xE4\xBD\xA0",
                            "\xE4\xBD\xA0\xE5\xA5\xBD",
                            "\xE4\xBD",
                            "\xF0\x9F",
                            "\xF0\x9F\x98\x80",
                            "\xFF\xFE",
                            "\xE2\x80\xA8"})
    tokens.emplace_back(token);
  tokens.emplace_back("\0\0", 2);
  tokens.emplace_back(128, ' ');
  return tokens;
}

std::string world_lines(const std::vector<std::string>& tokens) {
  std::string text;
  for (size_t id = 1; id < tokens.size(); ++id)
    text += cat(id, " ", literal(tokens[id]), " ", tokens[id].size(), "\n");
  return text;
}

ReferenceTokenizer::ReferenceTokenizer(const Tokenizer& tokenizer) {
  for (int32_t id = 0; id < tokenizer.vocabulary_size(); ++id) {
    const std::string_view bytes = tokenizer.bytes_of(id);
    if (bytes.empty()) continue;
    ids_[bytes] = id;
    longest_ = std::max(longest_, bytes.size());
  }
}

std::vector<int32_t> ReferenceTokenizer::encode(std::string_view text) const {
  std::vector<int32_t> ids;
  while (!text.empty()) {
    size_t length = std::min(longest_, text.size());
    while (!ids_.contains(text.substr(0, length))) --length;
    ids.push_back(ids_.at(text.substr(0, length)));
    text.remove_prefix(length);
  }
  return ids;
}

std::string random_text(Random& random, const Tokenizer& tokenizer, size_t max_bytes) {
  const size_t size = random.below(max_bytes + 1);
  const uint64_t kind = random.below(5);
  std::string text;
  while (text.size() < size) {
    const auto id = int32_t(random.below(uint64_t(tokenizer.vocabulary_size())));
    const std::string_view token = tokenizer.bytes_of(id);
    if (kind == 0)
      text += char(random.below(256));
    else if (kind == 1)
      text += "ab1 \n\xE4"[random.below(6)];
    else if (kind == 2)
      text += token;
    else if (kind == 3)
      text += token.substr(0, random.below(token.size() + 1));
    else
      append_utf8(text, random_scalar(random));
  }
  text.resize(size);
  return text;
}

}  // namespace deltasane::test
