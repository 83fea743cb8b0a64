// A training run (train/run.h) as Python sees it. The public C++ API has classes of the same names
// as lower layers, so this header includes neither.
#pragma once

#include <nanobind/nanobind.h>

namespace deltasane::python {

void bind_trainer(nanobind::module_& m);

}  // namespace deltasane::python
