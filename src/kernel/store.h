// Whether an operator overwrites its result or adds to what is there.
#pragma once

namespace deltasane::kernel {

enum class Store { overwrite, add };  // y = ..., y += ...

}  // namespace deltasane::kernel
