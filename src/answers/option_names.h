// Options of a check as a JSON object, under the names the reference's own test files use:
// match_types ["latex", "expr", "string"], strings, lowercase, try_extract_without_anchor,
// boxed_match_priority, float_rounding, numeric_precision, strict, allow_set_relation_comp,
// fallback_mode, extraction_mode, normalization.malformed_operators. Anything but an object
// (such as "default") means the defaults.
#pragma once

#include <string_view>

#include "answers/answers.h"

namespace deltasane::answers {

CheckOptions options_from_json(std::string_view json);  // a value of a wrong type fails

}  // namespace deltasane::answers
