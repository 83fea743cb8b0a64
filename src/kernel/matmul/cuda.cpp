#include "kernel/matmul/cuda.h"

#include <cublasLt.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <type_traits>
#include <vector>

#include "base/error.h"
#include "kernel/cuda/gpu_timing.h"
#include "kernel/matmul/cuda_digest.h"

namespace deltasane::kernel::cuda {
namespace {

constexpr double large = 1 << 30;  // multiply-adds of a product whose algorithm matters
constexpr int most_candidates = 8;

void check_cublas(cublasStatus_t status,
                  std::source_location at = std::source_location::current()) {
  if (status != CUBLAS_STATUS_SUCCESS)
    fail(Fault::device, "cuBLASLt: ", cublasLtGetStatusString(status), ", in ", at.function_name());
}

template <class T>
constexpr cudaDataType_t library_type() {
  return std::is_same_v<T, float> ? CUDA_R_32F : CUDA_R_16BF;
}

// The library's objects: created by one call, destroyed by another.
template <class Object, cublasStatus_t (*destroy)(Object)>
struct Owned {
  Object object = nullptr;
  Owned() = default;
  Owned(Owned&& other) noexcept { std::swap(object, other.object); }
  Owned& operator=(Owned&& other) noexcept {
    std::swap(object, other.object);
    return *this;
  }
  ~Owned() {
    if (object) destroy(object);
  }
};
using Layout = Owned<cublasLtMatrixLayout_t, cublasLtMatrixLayoutDestroy>;

// One operand as it is stored, in the library's column-major terms.
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

// A shape's product, ready to run.
struct Plan {
  Owned<cublasLtMatmulDesc_t, cublasLtMatmulDescDestroy> product;
  Layout a, b, c;  // the library's
  // The first is used: the library's first choice, until autotuning leaves one of all.
  std::vector<cublasLtMatmulAlgo_t> candidates;
  int64_t calls = 0;
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
  int autotune_after;
  GpuBuffer workspace;
  Owned<cublasLtHandle_t, cublasLtDestroy> handle;
  std::map<Key, Plan> plans;

  State(const Gpu& gpu_, int autotune_after_, uint64_t workspace_bytes)
      : gpu(gpu_),
        autotune_after(autotune_after_),
        workspace(gpu_, workspace_bytes, "the workspace of matrix products") {
    check_cublas(cublasLtCreate(&handle.object));
  }

  // Row-major c = a b is the library's column-major c' = b' a': its first operand is our b, its
  // second our a.
  template <class In, class Out>
  Plan make(const Product<In, Out>& p, uint32_t align_a, uint32_t align_b, uint32_t align_c) {
    Plan plan;
    check_cublas(cublasLtMatmulDescCreate(&plan.product.object, CUBLAS_COMPUTE_32F, CUDA_R_32F));
    const cublasOperation_t op_b = p.form == Form::nt ? CUBLAS_OP_T : CUBLAS_OP_N;
    const cublasOperation_t op_a = p.form == Form::tn ? CUBLAS_OP_T : CUBLAS_OP_N;
    check_cublas(cublasLtMatmulDescSetAttribute(plan.product.object, CUBLASLT_MATMUL_DESC_TRANSA,
                                                &op_b, sizeof op_b));
    check_cublas(cublasLtMatmulDescSetAttribute(plan.product.object, CUBLASLT_MATMUL_DESC_TRANSB,
                                                &op_a, sizeof op_a));
    const bool nt = p.form == Form::nt, tn = p.form == Form::tn;
    plan.a = layout(library_type<In>(), nt ? p.k : p.n, nt ? p.n : p.k, p.count, p.stride_b);
    plan.b = layout(library_type<In>(), tn ? p.m : p.k, tn ? p.k : p.m, p.count, p.stride_a);
    plan.c = layout(library_type<Out>(), p.n, p.m, p.count, p.stride_c);

    Owned<cublasLtMatmulPreference_t, cublasLtMatmulPreferenceDestroy> preference;
    check_cublas(cublasLtMatmulPreferenceCreate(&preference.object));
    const auto set = [&](cublasLtMatmulPreferenceAttributes_t what, const auto& value) {
      check_cublas(
          cublasLtMatmulPreferenceSetAttribute(preference.object, what, &value, sizeof value));
    };
    set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, workspace.size());
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, align_b);
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, align_a);
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, align_c);
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, align_c);
    const bool one =
        autotune_after == 0 || double(p.m) * double(p.n) * double(p.k * p.count) < large;
    cublasLtMatmulHeuristicResult_t best[most_candidates];
    int found = 0;
    check_cublas(cublasLtMatmulAlgoGetHeuristic(
        handle.object, plan.product.object, plan.a.object, plan.b.object, plan.c.object,
        plan.c.object, preference.object, one ? 1 : most_candidates, best, &found));
    if (found < 1)
      fail(Fault::device, "cuBLASLt: expected an algorithm for a product of (", p.m, ", ", p.k,
           ") and (", p.k, ", ", p.n, "), found none");
    for (int i = 0; i < found; ++i) plan.candidates.push_back(best[i].algo);
    return plan;
  }

  template <class In, class Out>
  cublasStatus_t run(const Plan& plan, size_t which, const Product<In, Out>& p) {
    const float one = 1, kept = p.add || p.addend ? 1.0f : 0.0f;
    return cublasLtMatmul(handle.object, plan.product.object, &one, p.b, plan.a.object, p.a,
                          plan.b.object, &kept, p.addend ? p.addend : p.c, plan.c.object, p.c,
                          plan.c.object, &plan.candidates[which], workspace.data(),
                          workspace.size(), gpu.stream());
  }

  // The bits must tell one order of additions from another. They do not where half of the results
  // are 0, as while low-rank factors are; then autotuning is postponed.
  template <class In, class Out>
  void autotune(Plan& plan, Product<In, Out> p) {
    const int64_t numbers = (p.count > 1 ? (p.count - 1) * p.stride_c : 0) + p.m * p.n;
    const auto bytes = uint64_t(numbers) * sizeof(Out);
    GpuBuffer other;  // a result that is added to is not touched
    if (p.add) {
      if (bytes > gpu.free_bytes() / 2) return;
      other = GpuBuffer(gpu, bytes, "autotuning matrix products");
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
    double least = 0.99 * seconds_of(0);  // a smaller gain is noise
    size_t fastest = 0;
    for (size_t which = 1; which < plan.candidates.size(); ++which) {
      if (result_of(which) != first) continue;
      if (const double seconds = seconds_of(which); seconds < least)
        least = seconds, fastest = which;
    }
    plan.candidates = {plan.candidates[fastest]};
  }
};

Products::Products(const Gpu& gpu, int autotune_after, uint64_t workspace)
    : state_(std::make_unique<State>(gpu, autotune_after, workspace)) {}
Products::~Products() = default;

template <class In, class Out>
void Products::multiply(const Product<In, Out>& p) {
  require(p.m >= 0 && p.n >= 0 && p.k > 0 && p.count >= 0, "a product has sizes");
  if (p.m == 0 || p.n == 0 || p.count == 0) return;
  const bool many = p.count > 1;
  const uint32_t align_a = alignment(p.a, many ? p.stride_a * int64_t(sizeof(In)) : 0);
  const uint32_t align_b = alignment(p.b, many ? p.stride_b * int64_t(sizeof(In)) : 0);
  const uint32_t align_c = std::min(alignment(p.c, many ? p.stride_c * int64_t(sizeof(Out)) : 0),
                                    p.addend ? alignment(p.addend, 0) : 256);
  const Key key{sizeof(In),
                sizeof(Out),
                int64_t(p.form),
                p.m,
                p.n,
                p.k,
                p.count,
                many ? p.stride_a : 0,
                many ? p.stride_b : 0,
                many ? p.stride_c : 0,
                align_a,
                align_b,
                align_c};
  State& s = *state_;
  auto plan = s.plans.find(key);
  if (plan == s.plans.end())
    plan = s.plans.emplace(key, s.make(p, align_a, align_b, align_c)).first;
  Plan& ready = plan->second;
  require(!(p.add && p.addend), "a product is added to c or to an addend, not to both");
  if (ready.candidates.size() > 1 && ++ready.calls % s.autotune_after == 0) s.autotune(ready, p);
  check_cublas(s.run(ready, 0, p));
}

template void Products::multiply(const Product<float, float>&);
template void Products::multiply(const Product<bf16, bf16>&);
template void Products::multiply(const Product<bf16, float>&);

}  // namespace deltasane::kernel::cuda
