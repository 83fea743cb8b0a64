// What the tests of GPU kernels share: the GPU or a reason to skip, uploads and downloads, and the
// comparison. Real is float or bf16; on the host all numbers are float or double.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <optional>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/half.h"
#include "base/random.h"
#include "tensor/closeness.h"
#include "tensor/cuda/gpu_tensor.h"

namespace deltasane::kernel {

template <class T>
using Numbers = std::vector<T>;

// Numbers rounded to Real.
template <class Real>
Numbers<float> rounded_to(Numbers<float> x) {
  if constexpr (std::is_same_v<Real, bf16>)
    for (float& value : x) value = float(bf16(value));
  return x;
}

// The first normal numbers of a stream, at least `count`. They are drawn once: a test asks for the
// same stream for each of its types and cases, and drawing takes longer than the kernels.
inline const Numbers<double>& normal_numbers(uint64_t stream, size_t count) {
  struct Drawn {
    Random random;
    Numbers<double> numbers{};
  };
  static std::map<uint64_t, Drawn> streams;
  Drawn& drawn = streams.try_emplace(stream, Drawn{Random(23, stream)}).first->second;
  while (drawn.numbers.size() < count) drawn.numbers.push_back(drawn.random.normal());
  return drawn.numbers;
}

template <class Real>
Numbers<float> random_numbers(int64_t count, double scale, uint64_t stream, double mean = 0) {
  const Numbers<double>& normal = normal_numbers(stream, size_t(count));
  Numbers<float> x(static_cast<size_t>(count));
  for (size_t i = 0; i < x.size(); ++i) x[i] = float(mean + scale * normal[i]);
  return rounded_to<Real>(std::move(x));
}

template <class T>
Numbers<T> as(const Numbers<float>& x) {
  return {x.begin(), x.end()};
}

class GpuTest : public testing::Test {
 protected:
  void SetUp() override {
    if (Gpu::count() == 0) GTEST_SKIP() << "this machine has no CUDA device";
    gpu_.emplace(0);
  }
  const Gpu& gpu() const { return *gpu_; }

  template <class Real>
  GpuTensor<Real> upload(const Numbers<float>& x) const {
    Tensor<Real> host({int64_t(x.size())});
    for (size_t i = 0; i < x.size(); ++i) host[int64_t(i)] = Real(x[i]);
    return GpuTensor<Real>(gpu(), host, "a test");
  }
  GpuTensor<int32_t> upload(const Numbers<int32_t>& x) const { return upload_as_is(x); }
  GpuTensor<uint8_t> upload(const Numbers<uint8_t>& x) const { return upload_as_is(x); }
  template <class Real>
  GpuTensor<Real> poisoned(int64_t count) const {
    return upload<Real>(Numbers<float>(size_t(count), NAN));
  }
  template <class Real>
  Numbers<float> download(const GpuTensor<Real>& x) const {
    const Tensor<Real> host = x.on_host(gpu());
    Numbers<float> out;
    for (const Real value : host.span()) out.push_back(float(value));
    return out;
  }

  // By the rule of closeness.h, with `plain` rounded to the type of the result.
  template <class Real>
  void expect_close(std::string_view name, const GpuTensor<Real>& result,
                    const Numbers<float>& plain, const Numbers<double>& truth) const {
    const Numbers<float> found = download(result);
    ASSERT_EQ(found.size(), truth.size()) << name;
    const Closeness comparison = closeness(found, rounded_to<Real>(plain), truth);
    if (comparison.close) return;
    for (size_t i = 0; i < found.size(); ++i)
      if (!(std::abs(double(found[i]) - truth[i]) <= comparison.allowed)) {
        ADD_FAILURE() << name << ": " << comparison.explanation() << "; first at " << i << " of "
                      << found.size() << ", found " << found[i] << ", expected " << truth[i];
        return;
      }
  }

 private:
  template <class T>
  GpuTensor<T> upload_as_is(const Numbers<T>& x) const {
    GpuTensor<T> tensor(gpu(), {int64_t(x.size())}, "a test");
    tensor.upload(x, gpu());
    return tensor;
  }

  std::optional<Gpu> gpu_;
};

}  // namespace deltasane::kernel
