// The recurrence by one call of C++, for arguments as they mostly are: the generalized rule, packed
// arrays of one library on one device, no masks or texts one after another. That they are is looked
// at here; for all others the answer is None, and the caller's slower way finds what is wrong or
// different. Python's own code for these looks takes longer than small kernels run.
#pragma once

#include <nanobind/nanobind.h>

namespace deltasane::python {

void bind_direct_calls(nanobind::module_& m);

}  // namespace deltasane::python
