// What every way to compute a batch expects of it.
#pragma once

#include "base/error.h"
#include "train/batch.h"

namespace deltasane::train {

inline void check_batch(const Batch& batch, int64_t sequences, int64_t time, int64_t vocabulary) {
  if (batch.sequences != sequences || batch.time != time)
    fail(Fault::argument, "batch: expected ", sequences, " x ", time, " tokens, found ",
         batch.sequences, " x ", batch.time);
  for (const auto* ids : {&batch.tokens, &batch.targets})
    for (const int32_t id : *ids)
      if (id < 0 || id >= vocabulary)
        fail(Fault::argument, "token: expected 0 to ", vocabulary - 1, ", found ", id);
}

}  // namespace deltasane::train
