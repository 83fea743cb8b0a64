// What requests for texts have in common: how tokens are drawn, where a text ends, how it is sent.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "infer/engine/engine.h"
#include "kernel/sampler/sampler.h"
#include "serve/wire/body.h"
#include "text/grammar/grammar.h"

namespace deltasane::serve {

struct GenerationFields {
  SamplerSettings sampling;  // with the seed that was given, or one that was drawn
  int64_t samples = 1;       // n
  std::vector<std::string> stops;
  std::vector<int32_t> stop_tokens;
  std::vector<TokenBias> biases;
  bool ignores_end = false;
  std::shared_ptr<const Grammar> grammar;  // that texts must keep to; null: none
  bool streams = false, sends_usage = false, sends_usage_always = false;

  TextLimits limits(int64_t tokens, std::vector<std::string> more_stops = {}) const;
  std::vector<Sampler> samplers() const;  // one for each sample
};

// Reads these fields, accepts those that cannot change a text, and refuses those that would and are
// not supported.
GenerationFields read_generation(Fields& fields, const SamplerSettings& defaults);

void refuse_tools(Fields& fields);  // where there is no conversation in which they are called

// Null: the text is empty. Refuses what is no grammar, in the name of the field `param`.
std::shared_ptr<const Grammar> grammar_in(const std::string& text, const std::string& param);

// A number of tokens: at most 2^31 - 1.
std::optional<int64_t> read_token_limit(Fields& fields, std::string_view name, int64_t least);

}  // namespace deltasane::serve
