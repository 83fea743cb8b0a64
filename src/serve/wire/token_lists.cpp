#include "serve/wire/token_lists.h"

#include <algorithm>
#include <cmath>

#include "serve/wire/token_text.h"

namespace deltasane::serve {

double printed(double log_probability) {
  return std::isfinite(log_probability) ? log_probability : -9999.0;
}

void TokenLists::add_text(int32_t token) {
  tokens_.push_back(token_text(*tokenizer_, token));
  offsets_.push_back(offset_);
  for (const char byte : characters_.feed(tokenizer_->bytes_of(token)))
    offset_ += (static_cast<unsigned char>(byte) & 0xC0) != 0x80;  // where a character begins
}

void TokenLists::add_score(const LogProbabilities& scores, size_t at) {
  own_.push_back(printed(scores.tokens[at]));
  Json top = Json::object();
  for (size_t i = at * size_t(scores.top_count); i < (at + 1) * size_t(scores.top_count); ++i)
    if (scores.top[i].token >= 0) {
      const std::string text = token_text(*tokenizer_, scores.top[i].token);
      if (!top.contains(text)) top[text] = printed(scores.top[i].log_probability);
    }
  top_.push_back(std::move(top));
}

void TokenLists::add_prompt(std::span<const int32_t> tokens, const LogProbabilities& scores) {
  for (size_t i = 0; i < tokens.size(); ++i) {
    add_text(tokens[i]);
    if (i > 0) {
      add_score(scores, i - 1);
    } else {
      own_.push_back(nullptr);
      top_.push_back(nullptr);
    }
  }
}

void TokenLists::add(int32_t token, const LogProbabilities& score) {
  add_text(token);
  add_score(score, 0);
}

Json TokenLists::take() {
  Json lists{{"tokens", std::move(tokens_)},
             {"token_logprobs", std::move(own_)},
             {"top_logprobs", std::move(top_)},
             {"text_offset", std::move(offsets_)}};
  tokens_ = own_ = top_ = offsets_ = Json::array();
  return lists;
}

}  // namespace deltasane::serve
