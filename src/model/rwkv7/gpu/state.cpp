#include "model/rwkv7/gpu/state.h"

#include <bit>
#include <cmath>
#include <limits>

#include "kernel/state_scan/cuda.h"

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
    copy->copied_.record(gpu);
    return copy;
  }
  void zero() { numbers_.zero(*states_->gpu_); }
  void upload(std::span<const float> fixed) {
    const Gpu& gpu = *states_->gpu_;
    copy_to_gpu(numbers(), fixed.data(), fixed.size_bytes(), gpu);
    gpu.wait();
  }
  void download(StateNumbers& to) const override {
    const Gpu& gpu = states_->downloads_;
    gpu.make_current();
    copied_.stream_wait(gpu.stream());
    copy_to_host(to.fixed.data(), numbers_.data(), to.fixed.span().size_bytes(), gpu);
    gpu.wait();
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
    kernel::cuda::sums_of_squares(numbers_.data() + shift, heads, memory / heads, found, gpu);
    std::vector<double> norms(static_cast<size_t>(heads));
    copy_to_host(norms.data(), found, norms.size() * sizeof(double), gpu);
    gpu.wait();
    for (double& norm : norms) norm = std::sqrt(norm);
    return norms;
  }

  const GpuStates* owner() const { return states_.get(); }
  float* numbers() { return numbers_.data(); }

 private:
  std::shared_ptr<GpuStates> states_;
  GpuTensor<float> numbers_;
  GpuEvent copied_;
};

float* GpuStates::numbers_of(SequenceState& state) {
  require(state.layout().floats() == layout_.floats(), "a state has the shape of its model");
  auto* there = dynamic_cast<OnGpu*>(state.on_device());
  if (!there || there->owner() != this) {
    auto made = std::make_unique<OnGpu>(shared_from_this());
    if (state.is_fresh())
      made->zero();
    else
      made->upload(state.fixed());
    there = made.get();
    state.keep_on_device(std::move(made));
  }
  return there->numbers();
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
