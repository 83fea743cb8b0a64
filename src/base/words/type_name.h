// One spelling for the names of number types that people give: "Q8", "q8_0" and "Q8_0" are one type,
// as are "f16", "fp16" and "float16".
#pragma once

#include <string>
#include <string_view>

namespace deltasane {

// In lower case, as files of models name it; a name that is unknown stays what it is.
std::string type_name(std::string_view given);

}  // namespace deltasane
