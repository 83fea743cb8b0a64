// Log probabilities as completions have them: four lists with an entry for every token.
#pragma once

#include <span>

#include "infer/engine/engine.h"
#include "serve/wire/body.h"
#include "text/utf8_stream.h"

namespace deltasane::serve {

// As JSON has it: -infinity is -9999.
double printed(double log_probability);

class TokenLists {
 public:
  explicit TokenLists(const Tokenizer& tokenizer) : tokenizer_(&tokenizer) {}

  // The first token of a prompt has no log probability.
  void add_prompt(std::span<const int32_t> tokens, const LogProbabilities& scores);
  void add(int32_t token, const LogProbabilities& score);

  bool empty() const { return tokens_.empty(); }
  Json take();  // what was added since the last time

 private:
  void add_text(int32_t token);
  void add_score(const LogProbabilities& scores, size_t at);

  const Tokenizer* tokenizer_;
  Utf8Stream characters_;
  int64_t offset_ = 0;  // in code points
  Json tokens_ = Json::array(), own_ = Json::array(), top_ = Json::array(),
       offsets_ = Json::array();
};

}  // namespace deltasane::serve
