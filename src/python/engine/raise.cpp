#include "python/engine/raise.h"

#include <nanobind/nanobind.h>

namespace deltasane::python {

void raise(int fault, const char* text) {
  static constexpr const char* names[] = {"UsageError", "UsageError", "FileError", "DeviceError",
                                          "StateOverflow"};
  const char* const name = fault >= 0 && fault < 5 ? names[fault] : "Error";
  const nanobind::object type = nanobind::module_::import_("deltasane.errors").attr(name);
  PyErr_SetString(type.ptr(), text);
}

}  // namespace deltasane::python
