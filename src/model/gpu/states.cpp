#include "model/gpu/states.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "kernel/state_scan/cuda.h"
#include "model/state/cache_window.h"

namespace deltasane {
namespace {

float magnitude_from(int32_t bits) {
  const float value = std::bit_cast<float>(bits);
  return std::isfinite(value) ? value : std::numeric_limits<float>::infinity();
}

}  // namespace

class GpuStates::OnGpu : public DeviceState {
 public:
  explicit OnGpu(std::shared_ptr<GpuStates> states)
      : states_(std::move(states)), numbers_(states_->take()) {}
  ~OnGpu() override { states_->give_back(std::move(numbers_)); }

  std::unique_ptr<DeviceState> clone() const override {
    const Gpu& gpu = *states_->gpu_;
    gpu.make_current();
    auto copy = std::make_unique<OnGpu>(states_);
    copy_on_gpu(copy->numbers_.data(), numbers_.data(), numbers_.bytes(), gpu);
    copy->caches_ = GpuBuffer(gpu, caches_.size(), cache_purpose);
    copy->capacity_ = capacity_, copy->cached_ = cached_;
    copy_on_gpu(copy->caches_.data(), caches_.data(), caches_.size(), gpu);
    copy->copied_.record(gpu);
    return copy;
  }
  void zero() { numbers_.zero(*states_->gpu_); }
  void upload(const SequenceState& state) {
    const Gpu& gpu = *states_->gpu_;
    copy_to_gpu(numbers(), state.fixed().data(), state.fixed().size_bytes(), gpu);
    gpu.wait();
    if (states_->layout_.caches() == 0) return;
    append(state.position);
    for (int64_t i = 0; i < states_->layout_.caches(); ++i) {
      const int64_t row = states_->layout_.cache(i).floats();
      const float* from = state.cache(i).data();
      each_run([&](int64_t slot, int64_t count) {
        const auto to = [&](const auto& numbers) {
          copy_to_gpu(row_at(i, slot), numbers.data(), numbers.size() * sizeof(numbers[0]), gpu);
          gpu.wait();
        };
        if (states_->storage_.numbers == GpuCacheStorage::Numbers::bf16)
          to(std::vector<bf16>(from, from + count * row));
        else
          to(std::span(from, size_t(count * row)));
        from += count * row;
      });
    }
  }
  void download(StateNumbers& to) const override {
    const Gpu& gpu = states_->downloads_;
    gpu.make_current();
    copied_.stream_wait(gpu.stream());
    copy_to_host(to.fixed.data(), numbers_.data(), to.fixed.span().size_bytes(), gpu);
    gpu.wait();
    for (int64_t i = 0; i < states_->layout_.caches(); ++i) {
      const int64_t row = states_->layout_.cache(i).floats();
      std::vector<float>& cache = to.caches[size_t(i)];
      cache.clear();
      each_run([&](int64_t slot, int64_t count) {
        const auto from = [&](auto numbers) {
          copy_to_host(numbers.data(), row_at(i, slot), numbers.size() * sizeof(numbers[0]), gpu);
          gpu.wait();
          for (const auto one : numbers) cache.push_back(float(one));
        };
        if (states_->storage_.numbers == GpuCacheStorage::Numbers::bf16)
          from(std::vector<bf16>(size_t(count * row)));
        else
          from(std::vector<float>(size_t(count * row)));
      });
    }
  }
  Magnitudes largest() const override {
    const Gpu& gpu = *states_->gpu_;
    gpu.make_current();
    const int64_t shift = states_->shift_floats(), memory = states_->memory_floats();
    auto* const found =  // two more numbers at the end of the memory
        reinterpret_cast<int32_t*>(const_cast<float*>(numbers_.data()) + shift + memory);
    kernel::cuda::largest_magnitude(numbers_.data() + shift, memory, found, gpu);
    kernel::cuda::largest_magnitude(numbers_.data(), shift, found + 1, gpu);
    int32_t bits[2];
    copy_to_host(bits, found, sizeof bits, gpu);
    gpu.wait();
    return {magnitude_from(bits[0]), magnitude_from(bits[1])};
  }
  std::vector<double> head_norms() const override {
    const Gpu& gpu = *states_->gpu_;
    gpu.make_current();
    const int64_t shift = states_->shift_floats(), memory = states_->memory_floats();
    const int64_t heads = states_->heads();
    auto* const found =  // behind the two of `largest`
        reinterpret_cast<double*>(const_cast<float*>(numbers_.data()) + shift + memory + 2);
    if (heads == 0) return {};
    kernel::cuda::sums_of_squares(numbers_.data() + shift, heads, memory / heads, found, gpu);
    std::vector<double> norms(static_cast<size_t>(heads));
    copy_to_host(norms.data(), found, norms.size() * sizeof(double), gpu);
    gpu.wait();
    for (double& norm : norms) norm = std::sqrt(norm);
    return norms;
  }

  const GpuStates* owner() const { return states_.get(); }
  float* numbers() { return numbers_.data(); }

  Caches append(int64_t tokens) {
    const Gpu& gpu = *states_->gpu_;
    const GpuCacheStorage& storage = states_->storage_;
    cached_ += tokens;
    const int64_t most = storage.ring ? storage.fixed + storage.ring : cached_;
    if (const int64_t needed = std::min(cached_, most); needed > capacity_) {
      const int64_t room = storage.ring ? std::min(most, 2 * needed) : 2 * needed;
      const uint64_t row = row_bytes(), old = uint64_t(capacity_) * row;
      GpuBuffer grown(gpu, uint64_t(states_->layout_.caches() * room) * row, cache_purpose);
      for (int64_t i = 0; i < states_->layout_.caches(); ++i)
        copy_on_gpu(grown.data() + uint64_t(i * room) * row, caches_.data() + uint64_t(i) * old,
                    old, gpu);
      gpu.wait();
      caches_ = std::move(grown), capacity_ = room;
    }
    return {caches_.data(), capacity_};
  }

 private:
  static constexpr const char* cache_purpose =
      "the attention cache of a sequence (an attention window bounds it)";
  // Every cache of a layout has rows of one size.
  uint64_t row_bytes() const {
    return uint64_t(states_->layout_.cache(0).floats()) * states_->storage_.number_bytes();
  }
  std::byte* row_at(int64_t cache, int64_t slot) const {
    return caches_.data() + uint64_t(cache * capacity_ + slot) * row_bytes();
  }
  // The rows that a state on the host has, in their order: use(slot, count).
  template <class Use>
  void each_run(const Use& use) const {
    const GpuCacheStorage& storage = states_->storage_;
    if (storage.ring == 0) return cached_ ? use(0, cached_) : void();
    if (cached_ > 0) use(0, std::min(cached_, storage.fixed));
    for (int64_t p = storage.fixed + dropped_rows(cached_, storage.window); p < cached_;) {
      const int64_t slot = (p - storage.fixed) % storage.ring;
      const int64_t count = std::min(cached_ - p, storage.ring - slot);
      use(storage.fixed + slot, count);
      p += count;
    }
  }

  std::shared_ptr<GpuStates> states_;
  GpuTensor<float> numbers_;
  GpuBuffer caches_;
  int64_t capacity_ = 0, cached_ = 0;  // rows that there is room for; tokens read
  GpuEvent copied_;
};

float* GpuStates::numbers_of(SequenceState& state) { return on_gpu(state).numbers(); }

GpuStates::Caches GpuStates::append(SequenceState& state, int64_t tokens) {
  if (layout_.caches() == 0) return {};
  return on_gpu(state).append(tokens);
}

GpuStates::OnGpu& GpuStates::on_gpu(SequenceState& state) {
  require(state.layout().floats() == layout_.floats(), "a state has the shape of its model");
  auto* there = dynamic_cast<OnGpu*>(state.on_device());
  if (!there || there->owner() != this) {
    auto made = std::make_unique<OnGpu>(shared_from_this());
    if (state.is_fresh())
      made->zero();
    else
      made->upload(state);
    there = made.get();
    state.keep_on_device(std::move(made));
  }
  return *there;
}

GpuTensor<float> GpuStates::take() {
  const std::lock_guard lock(mutex_);
  if (free_.empty())
    return GpuTensor<float>(*gpu_, {shift_floats() + memory_floats() + 2 + 2 * heads()},
                            "the state of a sequence (fewer at a time need less)");
  GpuTensor<float> last = std::move(free_.back());
  free_.pop_back();
  return last;
}

void GpuStates::give_back(GpuTensor<float> numbers) {
  const std::lock_guard lock(mutex_);
  free_.push_back(std::move(numbers));
}

}  // namespace deltasane
