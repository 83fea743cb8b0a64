#include "python/ops/translate_errors.h"

#include <nanobind/nanobind.h>

#include "base/error.h"

namespace deltasane::python {
namespace {

PyObject* exception_of(Fault fault) {
  switch (fault) {
    case Fault::usage:
    case Fault::argument:
      return PyExc_ValueError;
    case Fault::file:
      return PyExc_OSError;
    case Fault::device:
      return PyExc_RuntimeError;
    case Fault::overflow:
      return PyExc_ArithmeticError;
  }
  return PyExc_RuntimeError;
}

void translate(const std::exception_ptr& thrown, void*) {
  try {
    std::rethrow_exception(thrown);
  } catch (const Error& error) {
    PyErr_SetString(exception_of(error.fault()), error.what());
  }
}

}  // namespace

void translate_errors() { nanobind::register_exception_translator(translate); }

}  // namespace deltasane::python
