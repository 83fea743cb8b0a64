// Buffers in huge pages that are used again: the system clears each page that it gives, which takes longer than
// to read it. For any thread.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "tensor/buffer.h"

namespace deltasane {

class BufferPool {
 public:
  // One of `bytes` or more, not initialised. It is kept when its last owner is done; the pool outlives all owners.
  std::shared_ptr<Buffer> take(uint64_t bytes);

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<Buffer>> kept_;
  int64_t taken_ = 0;
};

}  // namespace deltasane
