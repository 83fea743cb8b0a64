// RWKV-7's line in the registry.
#pragma once

#include "model/registry.h"

namespace deltasane {

Architecture rwkv7_architecture();

}  // namespace deltasane
