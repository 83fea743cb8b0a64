#include "kernel/matmul/cuda.h"

#include <cublasLt.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <type_traits>
#include <vector>

#include "base/error.h"
#include "kernel/gpu_timing.h"
#include "kernel/matmul/cuda_digest.h"

namespace deltasane::kernel::cuda {
namespace {

constexpr double large = 1 << 30;  // multiply-adds of a product whose algorithm matters
constexpr int most_offers = 8;

void check_cublas(cublasStatus_t status,
                  std::source_location at = std::source_location::current()) {
  if (status != CUBLAS_STATUS_SUCCESS)
    fail(Fault::device, "cuBLASLt: ", cublasLtGetStatusString(status), ", in ", at.function_name());
}

template <class T>
constexpr cudaDataType_t library_type() {
  return std::is_same_v<T, float> ? CUDA_R_32F : CUDA_R_16BF;
}

// What the library's objects have in common: made by a call, given back by another.
template <class Object, cublasStatus_t (*give_back)(Object)>
struct Owned {
  Object object = nullptr;
  Owned() = default;
  Owned(Owned&& other) noexcept { std::swap(object, other.object); }
  Owned& operator=(Owned&& other) noexcept {
    std::swap(object, other.object);
    return *this;
  }
  ~Owned() {
    if (object) give_back(object);
  }
};
using Layout = Owned<cublasLtMatrixLayout_t, cublasLtMatrixLayoutDestroy>;

// One operand as it is stored, in the library's column-major words.
Layout layout(cudaDataType_t type, int64_t rows, int64_t columns, int64_t count, int64_t step) {
  Layout made;
  check_cublas(
      cublasLtMatrixLayoutCreate(&made.object, type, uint64_t(rows), uint64_t(columns), rows));
  if (count > 1) {
    const int32_t batch = int32_t(count);
    check_cublas(cublasLtMatrixLayoutSetAttribute(made.object, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT,
                                                  &batch, sizeof batch));
    check_cublas(cublasLtMatrixLayoutSetAttribute(
        made.object, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &step, sizeof step));
  }
  return made;
}

// A shape's product, ready to be asked for.
struct Plan {
  Owned<cublasLtMatmulDesc_t, cublasLtMatmulDescDestroy> product;
  Layout first, second, result;
  // The one that is taken, the library's first choice, and others to be tried; then one for good.
  std::vector<cublasLtMatmulAlgo_t> offers;
  int64_t asked = 0;  // times
};

// The largest power of two up to 256 that divides the address, and the step in bytes.
uint32_t alignment(const void* at, int64_t step_bytes) {
  const uint64_t bits = uint64_t(reinterpret_cast<uintptr_t>(at)) | uint64_t(step_bytes) | 256;
  return uint32_t(bits & (~bits + 1));
}

using Key = std::array<int64_t, 13>;

}  // namespace

struct Products::State {
  const Gpu& gpu;
  int tried_after;
  GpuBuffer workspace;
  Owned<cublasLtHandle_t, cublasLtDestroy> handle;
  std::map<Key, Plan> plans;

  State(const Gpu& gpu_, int tried_after_, uint64_t workspace_bytes)
      : gpu(gpu_),
        tried_after(tried_after_),
        workspace(gpu_, workspace_bytes, "the workspace of matrix products") {
    check_cublas(cublasLtCreate(&handle.object));
  }

  // Row-major c = a' b' is the library's c' = b'' a'': its first operand is b, its second a.
  template <class In, class Out>
  Plan make(const Product<In, Out>& p, uint32_t align_a, uint32_t align_b, uint32_t align_c) {
    Plan plan;
    check_cublas(cublasLtMatmulDescCreate(&plan.product.object, CUBLAS_COMPUTE_32F, CUDA_R_32F));
    const cublasOperation_t turn_b = p.form == Form::nt ? CUBLAS_OP_T : CUBLAS_OP_N;
    const cublasOperation_t turn_a = p.form == Form::tn ? CUBLAS_OP_T : CUBLAS_OP_N;
    check_cublas(cublasLtMatmulDescSetAttribute(plan.product.object, CUBLASLT_MATMUL_DESC_TRANSA,
                                                &turn_b, sizeof turn_b));
    check_cublas(cublasLtMatmulDescSetAttribute(plan.product.object, CUBLASLT_MATMUL_DESC_TRANSB,
                                                &turn_a, sizeof turn_a));
    const bool nt = p.form == Form::nt, tn = p.form == Form::tn;
    plan.first = layout(library_type<In>(), nt ? p.k : p.n, nt ? p.n : p.k, p.count, p.step_b);
    plan.second = layout(library_type<In>(), tn ? p.m : p.k, tn ? p.k : p.m, p.count, p.step_a);
    plan.result = layout(library_type<Out>(), p.n, p.m, p.count, p.step_c);

    Owned<cublasLtMatmulPreference_t, cublasLtMatmulPreferenceDestroy> wish;
    check_cublas(cublasLtMatmulPreferenceCreate(&wish.object));
    const auto want = [&](cublasLtMatmulPreferenceAttributes_t what, const auto& value) {
      check_cublas(cublasLtMatmulPreferenceSetAttribute(wish.object, what, &value, sizeof value));
    };
    want(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, workspace.size());
    want(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, align_b);
    want(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, align_a);
    want(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, align_c);
    want(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, align_c);
    const bool one = tried_after == 0 || double(p.m) * double(p.n) * double(p.k * p.count) < large;
    cublasLtMatmulHeuristicResult_t best[most_offers];
    int found = 0;
    check_cublas(cublasLtMatmulAlgoGetHeuristic(
        handle.object, plan.product.object, plan.first.object, plan.second.object,
        plan.result.object, plan.result.object, wish.object, one ? 1 : most_offers, best, &found));
    if (found < 1)
      fail(Fault::device, "cuBLASLt: expected an algorithm for a product of (", p.m, ", ", p.k,
           ") and (", p.k, ", ", p.n, "), found none");
    for (int i = 0; i < found; ++i) plan.offers.push_back(best[i].algo);
    return plan;
  }

  template <class In, class Out>
  cublasStatus_t run(const Plan& plan, size_t which, const Product<In, Out>& p) {
    const float one = 1, kept = p.add || p.plus ? 1.0f : 0.0f;
    return cublasLtMatmul(handle.object, plan.product.object, &one, p.b, plan.first.object, p.a,
                          plan.second.object, &kept, p.plus ? p.plus : p.c, plan.result.object, p.c,
                          plan.result.object, &plan.offers[which], workspace.data(),
                          workspace.size(), gpu.stream());
  }

  // Bits must tell one order of additions from another: not where half of the results are 0, as
  // they are while factors are; then the choice is put off.
  template <class In, class Out>
  void choose(Plan& plan, Product<In, Out> p) {
    const int64_t numbers = (p.count > 1 ? (p.count - 1) * p.step_c : 0) + p.m * p.n;
    const auto bytes = uint64_t(numbers) * sizeof(Out);
    GpuBuffer other;  // a result that is added to stays as it is
    if (p.add) {
      if (bytes > gpu.free_bytes() / 2) return;
      other = GpuBuffer(gpu, bytes, "trying matrix products");
      p.c = reinterpret_cast<Out*>(other.data());
    }
    const auto result_of = [&](size_t which) -> std::optional<Digest> {
      if (p.add) zero_on_gpu(p.c, bytes, gpu);
      if (run(plan, which, p) != CUBLAS_STATUS_SUCCESS) return {};
      return digest_of(p.c, int64_t(bytes / 4), gpu);
    };
    const auto seconds_of = [&](size_t which) {
      return time_on_gpu(
                 gpu, [&] { check_cublas(run(plan, which, p)); }, 5)
          .low;
    };
    const std::optional<Digest> first = result_of(0);
    if (!first || first->nonzero < uint64_t(p.m * p.n * p.count) * sizeof(Out) / 8) return;
    double least = 0.99 * seconds_of(0);  // less is no reason for another one
    size_t fastest = 0;
    for (size_t which = 1; which < plan.offers.size(); ++which) {
      if (result_of(which) != first) continue;
      if (const double seconds = seconds_of(which); seconds < least)
        least = seconds, fastest = which;
    }
    plan.offers = {plan.offers[fastest]};
  }
};

Products::Products(const Gpu& gpu, int tried_after, uint64_t workspace)
    : state_(std::make_unique<State>(gpu, tried_after, workspace)) {}
Products::~Products() = default;

template <class In, class Out>
void Products::multiply(const Product<In, Out>& p) {
  require(p.m >= 0 && p.n >= 0 && p.k > 0 && p.count >= 0, "a product has sizes");
  if (p.m == 0 || p.n == 0 || p.count == 0) return;
  const bool many = p.count > 1;
  const uint32_t align_a = alignment(p.a, many ? p.step_a * int64_t(sizeof(In)) : 0);
  const uint32_t align_b = alignment(p.b, many ? p.step_b * int64_t(sizeof(In)) : 0);
  const uint32_t align_c = std::min(alignment(p.c, many ? p.step_c * int64_t(sizeof(Out)) : 0),
                                    p.plus ? alignment(p.plus, 0) : 256);
  const Key key{sizeof(In),
                sizeof(Out),
                int64_t(p.form),
                p.m,
                p.n,
                p.k,
                p.count,
                many ? p.step_a : 0,
                many ? p.step_b : 0,
                many ? p.step_c : 0,
                align_a,
                align_b,
                align_c};
  State& s = *state_;
  auto plan = s.plans.find(key);
  if (plan == s.plans.end())
    plan = s.plans.emplace(key, s.make(p, align_a, align_b, align_c)).first;
  Plan& ready = plan->second;
  require(!(p.add && p.plus), "a product is added to what is there or to something else");
  if (ready.offers.size() > 1 && ++ready.asked % s.tried_after == 0) s.choose(ready, p);
  check_cublas(s.run(ready, 0, p));
}

template void Products::multiply(const Product<float, float>&);
template void Products::multiply(const Product<bf16, bf16>&);
template void Products::multiply(const Product<bf16, float>&);

}  // namespace deltasane::kernel::cuda
