// Calls of functions as a grammar (text/grammar/grammar.h), for models that must call one
// (tool_choice) or keep to the schema of its parameters (strict).
#pragma once

#include <string>

#include "serve/tool/tool.h"

namespace deltasane::serve {

// Empty: the model is free. A schema that a strict function has is kept to or refused; that of
// another one is kept to where it is understood.
std::string grammar_of_tools(const ToolFields& tools);

}  // namespace deltasane::serve
