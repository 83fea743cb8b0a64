// The style and the script of a page, as they stand in it.
#pragma once

namespace deltasane::cli {

extern const char* const page_style;
extern const char* const page_script;

}  // namespace deltasane::cli
