// Llama's vocabulary in GGUF, tokens with scores, against the definition written out.
#include <gtest/gtest.h>

#include <limits>
#include <map>

#include "base/random.h"
#include "format/gguf/gguf.h"
#include "format/tokenizer/find_tokenizer.h"
#include "support/errors.h"
#include "support/scratch.h"
#include "text/unicode/character_class.h"

namespace deltasane {
namespace {

enum TokenType : int32_t { normal = 1, unknown, control, user_defined, unused, byte };
const std::string space = "\u2581";

struct Vocabulary {
  std::vector<std::string> tokens;
  std::vector<float> scores;
  std::vector<int32_t> token_types;
  std::vector<GgufEntry> more;

  void add(const std::string& token, float score, int32_t type = normal) {
    tokens.push_back(token), scores.push_back(score), token_types.push_back(type);
  }
  // Bytes, five characters, and tokens joined of random ones, some with the score of another.
  explicit Vocabulary(uint64_t seed) {
    add("<unk>", 0, unknown), add("<s>", 0, control), add("</s>", 0, control);
    for (int i = 0; i < 256; ++i) {
      constexpr std::string_view digits = "0123456789ABCDEF";
      add(cat("<0x", digits[size_t(i / 16)], digits[size_t(i % 16)], ">"), 0, byte);
    }
    Random random(seed);
    std::vector<std::string> parts{"a", "b", "c", "\u00E9", space};
    for (const std::string& part : parts) add(part, -1000);
    for (int i = 0; i < 40; ++i) {
      const std::string joined = parts[random.below(parts.size())] + parts[random.below(parts.size())];
      if (joined.size() > 20 || std::ranges::count(parts, joined)) continue;
      parts.push_back(joined);
      add(joined, -float(random.below(20)));
    }
  }
  std::unique_ptr<Tokenizer> opened() const {
    const test::Scratch scratch;
    std::vector<GgufEntry> entries{{"tokenizer.ggml.model", std::string("llama")},
                                   {"tokenizer.ggml.tokens", tokens},
                                   {"tokenizer.ggml.scores", scores},
                                   {"tokenizer.ggml.token_type", token_types},
                                   {"tokenizer.ggml.bos_token_id", uint32_t{1}},
                                   {"tokenizer.ggml.eos_token_id", uint32_t{2}}};
    entries.insert(entries.end(), more.begin(), more.end());
    write_gguf(scratch.path() / "model.gguf", entries, {}, {});
    return open_vocabulary(scratch.path() / "model.gguf");
  }

  // Neighbours that are a token together are joined, those of the highest score first, of equal ones
  // the leftmost.
  std::vector<int32_t> ids_of(std::string_view text) const {
    std::map<std::string, int32_t> known;
    for (size_t id = 0; id < tokens.size(); ++id)
      if (token_types[id] == normal) known[tokens[id]] = int32_t(id);
    std::vector<std::string> symbols{space};
    while (!text.empty()) {
      const std::string character(text.substr(0, unicode::first_character(text).length));
      text.remove_prefix(character.size());
      symbols.push_back(character == " " ? space : character);
    }
    while (true) {
      size_t best = symbols.size();
      float highest = -std::numeric_limits<float>::infinity();
      for (size_t i = 0; i + 1 < symbols.size(); ++i)
        if (const auto found = known.find(symbols[i] + symbols[i + 1]);
            found != known.end() && scores[size_t(found->second)] > highest)
          best = i, highest = scores[size_t(found->second)];
      if (best == symbols.size()) break;
      symbols[best] += symbols[best + 1];
      symbols.erase(symbols.begin() + ptrdiff_t(best) + 1);
    }
    std::vector<int32_t> ids;
    for (const std::string& symbol : symbols)
      if (const auto found = known.find(symbol); found != known.end())
        ids.push_back(found->second);
      else
        for (const char one : symbol) ids.push_back(3 + int32_t(uint8_t(one)));
    return ids;
  }
};

TEST(LlamaVocabulary, JoinsByScoresAndFromTheLeft) {
  const std::vector<std::string> letters{"a", "b", "c", "\u00E9", " ", "x", "\u4F60"};
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    const Vocabulary vocabulary(seed);
    const auto tokenizer = vocabulary.opened();
    EXPECT_EQ(tokenizer->document_start().size(), 1u);
    EXPECT_TRUE(tokenizer->ends_text(2));
    Random random(seed);
    for (int i = 0; i < 50; ++i) {
      std::string text;
      for (uint64_t length = 1 + random.below(30); length > 0; --length)
        text += letters[random.below(random.below(4) == 0 ? letters.size() : 5)];
      const std::vector<int32_t> ids = tokenizer->encode(text);
      EXPECT_EQ(ids, vocabulary.ids_of(text)) << seed << ": " << text;
      EXPECT_EQ(tokenizer->decode(ids), text);
    }
  }
}

TEST(LlamaVocabulary, WhatIsNotKnownIsRefused) {
  Vocabulary vocabulary(1);
  vocabulary.scores.back() = std::numeric_limits<float>::quiet_NaN();
  EXPECT_FAULT(vocabulary.opened(), Fault::file, "expected a finite score");
  vocabulary.scores.pop_back();
  EXPECT_FAULT(vocabulary.opened(), Fault::file, "tokenizer.ggml.scores: expected");
  vocabulary = Vocabulary(1);
  vocabulary.add(std::string(300, 'a'), 0);
  EXPECT_FAULT(vocabulary.opened(), Fault::file, "at most 256 bytes, found 0 and 300");
  vocabulary = Vocabulary(1);
  vocabulary.more = {{"tokenizer.ggml.remove_extra_whitespaces", true}};
  EXPECT_FAULT(vocabulary.opened(), Fault::file, "remove_extra_whitespaces: expected false");
  vocabulary.more = {{"tokenizer.ggml.add_space_prefix", false}};
  EXPECT_EQ(vocabulary.opened()->encode("a"), std::vector<int32_t>{3 + 256});
}

}  // namespace
}  // namespace deltasane
