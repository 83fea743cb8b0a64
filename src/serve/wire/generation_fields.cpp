#include "serve/wire/generation_fields.h"

#include <sys/random.h>

#include <charconv>

#include "serve/wire/json_schema.h"
#include "serve/wire/token_text.h"

namespace deltasane::serve {
namespace {

constexpr size_t most_stops = 16, most_stop_bytes = 256;

std::vector<std::string> read_stops(Fields& fields) {
  const Json* const value = fields.find("stop");
  if (!value) return {};
  std::vector<std::string> stops;
  const Json list = value->is_array() ? *value : Json::array({*value});
  if (list.size() > most_stops)
    refuse_field("stop", cat("expected at most ", most_stops, " texts, found ", list.size()));
  for (const Json& stop : list) {
    if (!stop.is_string()) refuse_field("stop", "expected a text or a list of texts");
    const auto& text = stop.get_ref<const std::string&>();
    if (text.empty() || text.size() > most_stop_bytes)
      refuse_field("stop", cat("expected texts of 1 to ", most_stop_bytes, " bytes, found one of ",
                               text.size()));
    stops.push_back(text);
  }
  return stops;
}

// Ids are compared with the vocabulary where the model is known.
std::vector<int32_t> read_stop_tokens(Fields& fields) {
  const Json* const value = fields.find("stop_token_ids");
  if (!value) return {};
  if (!value->is_array() || value->size() > most_stops)
    refuse_field("stop_token_ids", cat("expected a list of at most ", most_stops, " token ids"));
  return read_ids(*value, "stop_token_ids", int64_t{INT32_MAX} + 1);
}

std::vector<TokenBias> read_biases(Fields& fields) {
  const Json* const value = fields.find("logit_bias");
  if (!value) return {};
  if (!value->is_object()) refuse_field("logit_bias", "expected an object of token ids and biases");
  std::vector<TokenBias> biases;
  Fields inner(*value, "logit_bias");
  for (const auto& [key, bias] : value->items()) {
    int32_t token = -1;
    const auto end = std::from_chars(key.data(), key.data() + key.size(), token);
    if (end.ec != std::errc() || end.ptr != key.data() + key.size() || token < 0)
      refuse_field("logit_bias", "expected token ids as names, found another");
    biases.push_back({token, float(inner.number(key, -100, 100).value_or(0))});
  }
  return biases;
}

uint64_t drawn_seed() {
  uint32_t seed = 0;  // of 32 bits: every client can send it back
  if (::getrandom(&seed, sizeof seed, 0) != ssize_t(sizeof seed))
    fail(Fault::device, "random numbers of the system: expected 4 bytes, found fewer");
  return seed;
}

// response_format, or a grammar of the request's own.
std::shared_ptr<const Grammar> read_grammar(Fields& fields) {
  std::string text = fields.text("grammar").value_or("");
  std::string param = "grammar";
  if (const Json* const format = fields.find("response_format")) {
    if (!text.empty()) refuse_field("grammar", "expected it or response_format, found both");
    param = "response_format";
    Fields inner(*format, param);
    const std::string type = inner.text("type").value_or("");
    if (type == "json_object") {
      text = any_object_grammar();
    } else if (type == "json_schema") {
      const Json* const wrapper = inner.find("json_schema");
      if (!wrapper) refuse_field("response_format.json_schema", "expected a schema, found none");
      Fields named(*wrapper, "response_format.json_schema");
      const Json* const schema = named.find("schema");
      if (!schema) refuse_field("response_format.json_schema.schema", "expected a schema, found none");
      text = grammar_of_schema(*schema, "response_format.json_schema.schema");
    } else if (type != "text") {
      refuse_field("response_format.type", "expected text, json_object or json_schema", "unsupported");
    }
  }
  return grammar_in(text, param);
}

// What other servers have, would change the text, and is not done here. Many clients send the values at
// which it is off.
struct UnsupportedField {
  const char* name;
  Json off;
  const char* instead = "it is not supported";
};
const std::vector<UnsupportedField>& unsupported_fields() {
  const Json none = Json::array(), no_text = "";
  static constexpr const char* as_schema = "use response_format";
  static const std::vector<UnsupportedField> all{
      // What is drawn from.
      {"min_p", 0}, {"top_a", 0}, {"typical_p", 1}, {"tfs_z", 1}, {"top_n_sigma", -1},
      {"epsilon_cutoff", 0}, {"eta_cutoff", 0}, {"mirostat", 0}, {"dynatemp_range", 0},
      {"smoothing_factor", 0}, {"xtc_probability", 0}, {"penalty_alpha", 0},
      {"bad_words", none, "use logit_bias"}, {"bad_words_ids", none, "use logit_bias"},
      {"banned_tokens", none, "use logit_bias"}, {"allowed_token_ids", none, "use grammar"},
      {"logits_processors", none},
      // Penalties.
      {"repetition_penalty", 1, "use presence_penalty and frequency_penalty"},
      {"repeat_penalty", 1, "use presence_penalty and frequency_penalty"},
      {"encoder_repetition_penalty", 1}, {"no_repeat_ngram_size", 0}, {"dry_multiplier", 0},
      // Where a text ends.
      {"min_tokens", 0}, {"min_length", 0}, {"include_stop_str_in_output", false},
      // Several texts of which one is chosen.
      {"use_beam_search", false}, {"num_beams", 1}, {"length_penalty", 1},
      // What a text must be.
      {"json_schema", Json::object(), as_schema}, {"guided_json", Json::object(), as_schema},
      {"structured_outputs", Json::object(), as_schema}, {"guided_grammar", no_text, "use grammar"},
      {"guided_regex", no_text, "use grammar"}, {"guided_choice", none, "use grammar"},
      {"regex", no_text, "use grammar"}, {"ebnf", no_text, "use grammar"},
      // The prompt.
      {"continue_final_message", false}, {"add_generation_prompt", true},
      {"truncate_prompt_tokens", -1}, {"chat_template", no_text}, {"documents", none}};
  return all;
}

}  // namespace

std::shared_ptr<const Grammar> grammar_in(const std::string& text, const std::string& param) {
  if (text.empty()) return nullptr;
  try {
    return std::make_shared<const Grammar>(parse_grammar(text));
  } catch (const Error& error) {
    std::string_view why = error.what();
    if (constexpr std::string_view own = "grammar: "; why.starts_with(own)) why.remove_prefix(own.size());
    refuse_field(param, std::string(why), "invalid_grammar");
  }
}

void refuse_tools(Fields& fields) {
  for (const char* const name : {"tools", "functions"})
    fields.refuse_unless_empty(name, "functions are for /v1/chat/completions and /v1/responses");
}

TextLimits GenerationFields::limits(int64_t tokens, std::vector<std::string> more_stops) const {
  more_stops.insert(more_stops.end(), stops.begin(), stops.end());
  return {std::move(more_stops), tokens, !ignores_end, stop_tokens};
}

std::vector<Sampler> GenerationFields::samplers() const {
  std::vector<Sampler> all;
  for (int64_t i = 0; i < samples; ++i) all.emplace_back(sampling, uint64_t(i));
  return all;
}

GenerationFields read_generation(Fields& fields, const SamplerSettings& defaults) {
  GenerationFields found;
  SamplerSettings& sampling = found.sampling = defaults;
  if (const auto value = fields.number("temperature", 0, 1000)) sampling.temperature = *value;
  if (sampling.temperature > 0 && sampling.temperature < 0.001) sampling.temperature = 0;
  if (const auto value = fields.number("top_p", 0, 1)) sampling.top_p = *value;
  if (const auto value = fields.integer("top_k", -1, INT32_MAX))
    sampling.top_k = *value < 0 ? 0 : *value;
  if (const auto value = fields.number("presence_penalty", -1000, 1000))
    sampling.presence_penalty = *value;
  if (const auto value = fields.number("frequency_penalty", -1000, 1000))
    sampling.frequency_penalty = *value;
  if (const auto value = fields.number("penalty_decay", 0, 1)) sampling.penalty_decay = *value;
  const auto seed = fields.natural("seed");
  sampling.seed = seed ? *seed : drawn_seed();
  validate(sampling);

  found.samples = fields.integer("n", 1, 16).value_or(1);
  found.stops = read_stops(fields);
  found.stop_tokens = read_stop_tokens(fields);
  found.biases = read_biases(fields);
  found.ignores_end = fields.flag("ignore_eos").value_or(false);
  found.streams = fields.flag("stream").value_or(false);
  if (const Json* const options = fields.find("stream_options")) {
    Fields inner(*options, "stream_options");
    found.sends_usage_always = inner.flag("continuous_usage_stats").value_or(false);
    found.sends_usage = inner.flag("include_usage").value_or(false) || found.sends_usage_always;
  }
  fields.accept({"user", "metadata", "store", "service_tier", "safety_identifier",
                 "prompt_cache_key", "prompt_cache_retention", "verbosity", "parallel_tool_calls"});
  for (const auto& [name, off, instead] : unsupported_fields())
    fields.refuse_unless_off(name, off, instead);
  if (const auto best_of = fields.integer("best_of", 1, INT32_MAX);
      best_of && *best_of > found.samples)
    refuse_field("best_of", "expected at most n", "unsupported");
  found.grammar = read_grammar(fields);
  return found;
}

std::optional<int64_t> read_token_limit(Fields& fields, std::string_view name, int64_t least) {
  return fields.integer(name, least, INT32_MAX);
}

}  // namespace deltasane::serve
