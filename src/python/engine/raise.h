// Exceptions of deltasane.errors for faults of the engine.
#pragma once

namespace deltasane::python {

// fault: 0 usage, 1 argument, 2 file, 3 device, 4 overflow: as the enums of the public C++ API and
// of the lower layers count.
void raise(int fault, const char* text);

}  // namespace deltasane::python
