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

std::string any_object_grammar();  // any JSON object

// `path` is where the schema is in the request, for refusals.
std::string grammar_of_schema(const Json& schema, const std::string& path);

}  // namespace deltasane::serve
