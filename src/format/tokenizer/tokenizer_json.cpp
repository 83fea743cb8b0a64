#include "format/tokenizer/tokenizer_json.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/printable.h"
#include "format/tokenizer/json_tree.h"
#include "text/bpe/bpe_tokenizer.h"

namespace deltasane {
namespace {

using JsonTree = nlohmann::json;

constexpr JsonLimits tokenizer_limits{.depth = 16,
                            .text = size_t{4} << 20,
                            .keys = BpeTokenizer::max_tokens,
                            .file = size_t{256} << 20};

class TokenizerJsonReader {
 public:
  TokenizerJsonReader(const JsonTree& root, const std::string& name) : root_(root) { out_.source = name; }

  BpeDefinition read() {
    if (!root_.is_object()) reject("expected a JSON object, found another value");
    read_normalizer(at(root_, "normalizer"), "normalizer");
    read_pretokenizer(at(root_, "pre_tokenizer"));
    read_model(at(root_, "model"));
    read_decoder(at(root_, "decoder"), "decoder");
    read_added(at(root_, "added_tokens"));
    read_postprocessor(at(root_, "post_processor"), "post_processor");
    return std::move(out_);
  }

 private:
  template <class... Part>
  [[noreturn]] void reject(const Part&... part) const {
    fail(Fault::file, out_.source, ": ", part...);
  }

  // An absent member is null.
  static const JsonTree& at(const JsonTree& object, const char* key) {
    static const JsonTree nothing;
    if (!object.is_object()) return nothing;
    const auto found = object.find(key);
    return found == object.end() ? nothing : *found;
  }

  std::string text(const JsonTree& object, const char* key, std::string_view what) const {
    const JsonTree& value = at(object, key);
    if (!value.is_string()) reject(what, ".", key, ": expected text, found ", value.type_name());
    return value.get<std::string>();
  }
  bool truth(const JsonTree& object, const char* key, bool otherwise, std::string_view what) const {
    const JsonTree& value = at(object, key);
    if (value.is_null()) return otherwise;
    if (!value.is_boolean())
      reject(what, ".", key, ": expected true or false, found ", value.type_name());
    return value.get<bool>();
  }
  const JsonTree& array(const JsonTree& object, const char* key, std::string_view what) const {
    const JsonTree& value = at(object, key);
    if (!value.is_array()) reject(what, ".", key, ": expected an array, found ", value.type_name());
    return value;
  }
  int32_t id(const JsonTree& value, std::string_view what) const {
    if (!value.is_number_unsigned() || value.get<uint64_t>() >= BpeTokenizer::max_tokens)
      reject(what, ": expected an id below ", BpeTokenizer::max_tokens, ", found ",
             value.is_number() ? value.dump() : value.type_name());
    return value.get<int32_t>();
  }

  // The pattern of a Replace or Split of this kind: String or Regex.
  std::string pattern(const JsonTree& node, const char* kind, std::string_view what) const {
    const JsonTree& value = at(at(node, "pattern"), kind);
    if (!value.is_string())
      reject(what, ".pattern: expected a ", kind, ", found ", printable(at(node, "pattern").dump()));
    return value.get<std::string>();
  }

  // Calls for each step of a Sequence, or for the one there is.
  template <class Step>
  void each_step(const JsonTree& node, const char* members, std::string_view what, const Step& step) {
    if (node.is_null()) return;
    const std::string type = text(node, "type", what);
    if (type != "Sequence") return step(node, type);
    for (const JsonTree& member : array(node, members, what)) each_step(member, members, what, step);
  }

  void read_normalizer(const JsonTree& node, std::string_view what) {
    using Kind = BpeDefinition::Normalizer::Kind;
    each_step(node, "normalizers", what, [&](const JsonTree& step, const std::string& type) {
      if (type == "NFC")
        out_.normalizers.push_back({Kind::nfc, {}, {}});
      else if (type == "Prepend")
        out_.normalizers.push_back({Kind::prepend, text(step, "prepend", what), {}});
      else if (type == "Replace")
        out_.normalizers.push_back(
            {Kind::replace, pattern(step, "String", what), text(step, "content", what)});
      else
        reject("normalizer: expected NFC, Prepend or Replace, found ", printable(type));
    });
  }

  void read_pretokenizer(const JsonTree& node) {
    constexpr const char* what = "pre_tokenizer";
    out_.alphabet = BpeDefinition::Alphabet::characters;
    int steps = 0;
    each_step(node, "pretokenizers", what, [&](const JsonTree& step, const std::string& type) {
      ++steps;
      if (out_.alphabet == BpeDefinition::Alphabet::bytes || out_.metaspace)
        reject("pre_tokenizer: expected nothing after ByteLevel or Metaspace, found ",
               printable(type));
      if (type == "Split")
        read_split(step, steps);
      else if (type == "ByteLevel")
        read_byte_level(step, steps);
      else if (type == "Metaspace" && steps == 1)
        read_metaspace(step);
      else
        reject("pre_tokenizer: expected Split and ByteLevel, or Metaspace, found ",
               printable(type));
    });
    if (out_.alphabet != BpeDefinition::Alphabet::bytes && steps > 0 && !out_.metaspace)
      reject("pre_tokenizer: expected ByteLevel after Split, found the end");
  }

  void read_split(const JsonTree& step, int number) {
    const std::string expression = pattern(step, "Regex", "pre_tokenizer");
    const auto known = pretokenizer_of_expression(expression);
    if (!known || number > 1)
      reject("pre_tokenizer: expected one Split, by an expression of GPT-2, cl100k, Llama 3, ",
             "Qwen or Kimi, found ", number > 1 ? "another, " : "", printable(expression));
    if (text(step, "behavior", "pre_tokenizer") != "Isolated" ||
        truth(step, "invert", false, "pre_tokenizer"))
      reject("pre_tokenizer: expected a Split that is Isolated and not inverted, found ",
             printable(step.dump()));
    out_.pretokenizer = *known;
  }

  void read_byte_level(const JsonTree& step, int number) {
    out_.alphabet = BpeDefinition::Alphabet::bytes;
    const bool expression = truth(step, "use_regex", true, "pre_tokenizer");
    out_.space_in_front = truth(step, "add_prefix_space", true, "pre_tokenizer");
    if (number > 1 && (expression || out_.space_in_front))
      reject("pre_tokenizer: expected ByteLevel after Split with use_regex and add_prefix_space ",
             "false, found ", printable(step.dump()));
    if (expression) out_.pretokenizer.kind = Pretokenizer::Kind::gpt2;
  }

  void read_metaspace(const JsonTree& step) {
    BpeDefinition::Metaspace space;
    space.replacement = text(step, "replacement", "pre_tokenizer");
    space.prepend = prepend_scheme(step, "pre_tokenizer");
    space.split = truth(step, "split", true, "pre_tokenizer");
    if (space.replacement.empty()) reject("pre_tokenizer.replacement: expected text, found none");
    out_.metaspace = space;
  }

  BpeDefinition::Metaspace::Prepend prepend_scheme(const JsonTree& node, std::string_view what) const {
    using Prepend = BpeDefinition::Metaspace::Prepend;
    if (at(node, "prepend_scheme").is_null())  // as older files have it
      return truth(node, "add_prefix_space", true, what) ? Prepend::always : Prepend::never;
    const std::string scheme = text(node, "prepend_scheme", what);
    if (scheme == "always") return Prepend::always;
    if (scheme == "first") return Prepend::first;
    if (scheme == "never") return Prepend::never;
    reject(what, ".prepend_scheme: expected always, first or never, found ", printable(scheme));
  }

  void read_model(const JsonTree& model) {
    const bool untyped = at(model, "type").is_null() && at(model, "merges").is_array();
    if (const std::string type = untyped ? "BPE" : text(model, "type", "model"); type != "BPE")
      reject("model.type: expected BPE, found ", printable(type));
    if (!at(model, "dropout").is_null() && at(model, "dropout") != 0.0)
      reject("model.dropout: expected null, found ", at(model, "dropout").dump());
    for (const char* const key : {"continuing_subword_prefix", "end_of_word_suffix"})
      if (!at(model, key).is_null() && at(model, key) != "")
        reject("model.", key, ": expected none, found ", printable(at(model, key).dump()));
    const bool fallback = truth(model, "byte_fallback", false, "model");
    if (fallback == (out_.alphabet == BpeDefinition::Alphabet::bytes))
      reject("model.byte_fallback: expected ", !fallback, fallback ? " with" : " without",
             " the pre-tokenizer ByteLevel, found ", fallback);
    out_.ignore_merges = truth(model, "ignore_merges", false, "model");
    read_vocabulary(at(model, "vocab"));
    for (const JsonTree& merge : array(model, "merges", "model")) read_merge(merge);
  }

  void read_vocabulary(const JsonTree& vocabulary) {
    if (!vocabulary.is_object())
      reject("model.vocab: expected an object, found ", vocabulary.type_name());
    for (const auto& [token, value] : vocabulary.items()) {
      const auto number = size_t(id(value, cat("model.vocab: token ", printable(token))));
      if (token.empty()) reject("model.vocab: expected tokens with text, found an empty one");
      if (number >= out_.tokens.size()) out_.tokens.resize(number + 1);
      if (!out_.tokens[number].empty())
        reject("model.vocab: id ", number, ": expected one token, found ",
               printable(out_.tokens[number]), " and ", printable(token));
      out_.tokens[number] = token;
    }
  }

  void read_merge(const JsonTree& merge) {
    const size_t rank = out_.merges.size();
    if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string()) {
      out_.merges.emplace_back(merge[0].get<std::string>(), merge[1].get<std::string>());
      return;
    }
    const std::string pair = merge.is_string() ? merge.get<std::string>() : "";
    const size_t space = pair.find(' ');
    if (space == pair.npos || pair.find(' ', space + 1) != pair.npos)
      reject("model.merges: merge ", rank, ": expected two tokens, found ",
             printable(merge.dump(-1, ' ', false, JsonTree::error_handler_t::replace)));
    out_.merges.emplace_back(pair.substr(0, space), pair.substr(space + 1));
  }

  void read_decoder(const JsonTree& node, std::string_view what) {
    each_step(node, "decoders", what, [&](const JsonTree& step, const std::string& type) {
      const bool bytes = out_.alphabet == BpeDefinition::Alphabet::bytes;
      if (type == "ByteLevel" && bytes) return;
      if ((type == "ByteFallback" || type == "Fuse") && !bytes) return;
      if (type == "Replace" && !bytes && text(step, "content", what) == " ") {
        out_.space_letter = pattern(step, "String", what);
      } else if (type == "Strip" && !bytes && text(step, "content", what) == " " &&
                 at(step, "start") == 1 && at(step, "stop") == 0) {
        out_.strip_front = true;
      } else if (type == "Metaspace" && !bytes) {
        out_.space_letter = text(step, "replacement", what);
        out_.strip_front =
            prepend_scheme(step, what) != BpeDefinition::Metaspace::Prepend::never;
      } else {
        reject("decoder: expected ", bytes ? "ByteLevel" : "Replace, ByteFallback, Fuse, Strip or "
               "Metaspace as Llama has them", ", found ", printable(step.dump()));
      }
    });
  }

  void read_added(const JsonTree& tokens) {
    if (tokens.is_null()) return;
    if (!tokens.is_array()) reject("added_tokens: expected an array, found ", tokens.type_name());
    for (const JsonTree& node : tokens) {
      constexpr const char* what = "added_tokens";
      AddedToken token;
      token.content = text(node, "content", what);
      token.id = id(at(node, "id"), cat("added token ", printable(token.content)));
      token.special = truth(node, "special", false, what);
      token.normalized = truth(node, "normalized", !token.special, what);
      token.lstrip = truth(node, "lstrip", false, what);
      token.rstrip = truth(node, "rstrip", false, what);
      if (truth(node, "single_word", false, what))
        reject("added token ", printable(token.content),
               ": expected single_word false, found true");
      out_.added.push_back(std::move(token));
    }
  }

  void read_postprocessor(const JsonTree& node, std::string_view what) {
    each_step(node, "processors", what, [&](const JsonTree& step, const std::string& type) {
      if (type == "ByteLevel") return;  // about positions in the text alone
      if (type != "TemplateProcessing")
        reject("post_processor: expected ByteLevel or TemplateProcessing, found ",
               printable(type));
      bool sequence = false;
      for (const JsonTree& part : array(step, "single", what)) {
        if (!at(part, "Sequence").is_null()) {
          sequence = true;
          continue;
        }
        const std::string name = text(at(part, "SpecialToken"), "id", what);
        if (sequence)
          reject("post_processor: expected special tokens in front of the text alone, found ",
                 printable(name), " after it");
        const JsonTree& known = at(at(step, "special_tokens"), name.c_str());
        for (const JsonTree& value : array(known, "ids", what)) out_.start.push_back(id(value, what));
      }
    });
  }

  const JsonTree& root_;
  BpeDefinition out_;
};

// A token as tokenizer_config.json names it: its text, or an object with its content.
std::string token_text(const JsonTree& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_object() && value.contains("content") && value["content"].is_string())
    return value["content"].get<std::string>();
  return {};
}

void read_tokenizer_config(const fs::path& path, BpeDefinition& out) {
  const JsonTree config = read_json_tree_file(path);
  if (!config.is_object()) fail(Fault::file, path, ": expected a JSON object");
  if (const auto end = config.find("eos_token"); end != config.end() && !end->is_null()) {
    const std::string name = token_text(*end);
    for (const AddedToken& token : out.added)
      if (token.content == name) out.ends_text.push_back(token.id);
  }
  const auto templates = config.find("chat_template");
  if (templates == config.end()) return;
  if (templates->is_string()) out.chat_template = templates->get<std::string>();
  if (!templates->is_array()) return;
  for (const JsonTree& one : *templates)  // several, by name
    if (one.is_object() && one.value("name", JsonTree()) == "default")
      out.chat_template = token_text(JsonTree{{"content", one.value("template", JsonTree())}});
}

void read_generation_config(const fs::path& path, BpeDefinition& out) {
  const JsonTree config = read_json_tree_file(path);
  if (!config.is_object() || !config.contains("eos_token_id")) return;
  const JsonTree& ends = config["eos_token_id"];
  for (const JsonTree& end : ends.is_array() ? ends : JsonTree::array({ends}))
    if (end.is_number_unsigned() && end.get<uint64_t>() < BpeTokenizer::max_tokens)
      out.ends_text.push_back(end.get<int32_t>());
}

}  // namespace

BpeDefinition parse_tokenizer_json(std::string_view text, const std::string& name) {
  const JsonTree root = read_json_tree(text, name, tokenizer_limits);
  BpeDefinition definition = TokenizerJsonReader(root, name).read();
  find_ends(definition);
  return definition;
}

BpeDefinition read_tokenizer_json(const fs::path& path) {
  const JsonTree root = read_json_tree_file(path, tokenizer_limits);
  BpeDefinition definition = TokenizerJsonReader(root, path.string()).read();
  const fs::path folder = path.parent_path();
  if (const fs::path config = folder / "tokenizer_config.json"; fs::exists(config))
    read_tokenizer_config(config, definition);
  if (const fs::path config = folder / "generation_config.json"; fs::exists(config))
    read_generation_config(config, definition);
  if (const fs::path chat = folder / "chat_template.jinja"; fs::exists(chat))
    definition.chat_template = read_file(chat);
  find_ends(definition);
  return definition;
}

void find_ends(BpeDefinition& definition) {
  constexpr std::string_view of_document[]{"<|endoftext|>", "<|end_of_text|>", "</s>", "[EOS]"};
  constexpr std::string_view of_turn[]{"<|im_end|>", "<|eot_id|>"};
  std::optional<int32_t> named;
  for (const AddedToken& token : definition.added) {
    if (!token.special) continue;
    const auto is = [&](std::string_view name) { return token.content == name; };
    const bool document = std::any_of(std::begin(of_document), std::end(of_document), is);
    if (document && !named) named = token.id;
    if (document || std::any_of(std::begin(of_turn), std::end(of_turn), is))
      definition.ends_text.push_back(token.id);
  }
  definition.end_of_document = named;
  if (!named && !definition.ends_text.empty())
    definition.end_of_document = definition.ends_text.front();
}

}  // namespace deltasane
