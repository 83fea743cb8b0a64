// Errors of the layers below as exceptions of Python: a wrong value is a ValueError, a file an
// OSError, a device a RuntimeError, numbers that left the finite range an ArithmeticError.
#pragma once

namespace deltasane::python {

void translate_errors();

}  // namespace deltasane::python
