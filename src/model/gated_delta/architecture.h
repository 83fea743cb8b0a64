// The line of the delta-rule family in the list of architectures.
#pragma once

#include "model/registry.h"

namespace deltasane {

Architecture gated_delta_architecture();

}  // namespace deltasane
