// Calls body(i) for each i in [0, pieces): on several threads where there are many bytes to read in
// all, so that small files start no thread.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>

#include "base/threads.h"

namespace deltasane {

inline void read_in_parallel(uint64_t bytes, int64_t pieces,
                             const std::function<void(int64_t)>& body) {
  constexpr uint64_t worth_threads = uint64_t{8} << 20;
  constexpr int enough = 8;  // more read memory no faster
  if (bytes >= worth_threads) {
    ThreadPool threads(std::min(usable_processors(), enough));
    threads.parallel(pieces, body);
  } else {
    for (int64_t i = 0; i < pieces; ++i) body(i);
  }
}

}  // namespace deltasane
