#include "tensor/buffer_pool.h"

#include <algorithm>

namespace deltasane {

std::shared_ptr<Buffer> BufferPool::take(uint64_t bytes) {
  std::unique_ptr<Buffer> buffer;
  {
    const std::scoped_lock lock(mutex_);
    kept_.reserve(kept_.size() + size_t(++taken_));  // who gives one back cannot fail
    // The smallest that fits.
    auto best = kept_.end();
    for (auto one = kept_.begin(); one != kept_.end(); ++one)
      if ((*one)->size() >= bytes && (best == kept_.end() || (*one)->size() < (*best)->size()))
        best = one;
    if (best != kept_.end()) {
      buffer = std::move(*best);
      kept_.erase(best);
    }
  }
  if (!buffer) buffer = std::make_unique<Buffer>(Buffer::in_huge_pages(bytes));
  return {buffer.release(), [this](Buffer* done) {
            const std::scoped_lock lock(mutex_);
            kept_.emplace_back(done);
            --taken_;
          }};
}

}  // namespace deltasane
