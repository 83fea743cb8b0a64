// JSON schemas as grammars (text/grammar/grammar.h). What a schema demands is either kept to or
// refused, never ignored.
//
// Known: type (one or several), properties, required, additionalProperties, items, minItems,
// maxItems, minLength, maxLength, enum, const, anyOf, oneOf, allOf of one, $ref into the schema
// itself, true. Properties are written in the order of the schema, and no others.
#pragma once

#include <string>

#include "serve/wire/body.h"

namespace deltasane::serve {

// A grammar as it is written: its rules, beside those for JSON (value, object, string, ...).
class GrammarText {
 public:
  std::string add(const std::string& body);  // the name of the new rule
  std::string reserve() { return cat("s", ++count_); }  // a name, to be defined later
  void define(const std::string& name, const std::string& body) {
    rules_ += cat(name, " ::= ", body, "\n");
  }
  std::string with_root(const std::string& body) const;  // all of it

 private:
  std::string rules_;
  int count_ = 0;
};

// A text of a grammar that stands for these bytes.
std::string grammar_literal(std::string_view text);

// The name of the rule for a schema, which may refer to places in `root`.
std::string rule_of_schema(GrammarText& grammar, const Json& schema, const Json& root,
                           const std::string& path);

std::string any_object_grammar();  // any JSON object

// `path` is where the schema is in the request, for refusals.
std::string grammar_of_schema(const Json& schema, const std::string& path);

}  // namespace deltasane::serve
