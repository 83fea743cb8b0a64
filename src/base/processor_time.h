// How long processors have worked for this process, all threads together.
#pragma once

#include <ctime>

namespace deltasane {

inline double processor_seconds_now() { return double(std::clock()) / CLOCKS_PER_SEC; }

}  // namespace deltasane
