// Splits answers into thoughts and text (text/chat/thought_reader.h). The public C++ API has classes of
// the same names as lower layers, so this header includes neither.
#pragma once

#include <nanobind/nanobind.h>

namespace deltasane::python {

void bind_thoughts(nanobind::module_& m);

}  // namespace deltasane::python
