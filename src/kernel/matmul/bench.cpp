#include "kernel/matmul/bench.h"

#include <algorithm>

#include "kernel/matmul/check.h"

namespace deltasane::kernel {
namespace {

constexpr uint64_t beyond_caches = uint64_t{256} << 20;

// As many matrices as it takes to leave the caches, all with one content.
std::vector<Weights> rotation(WeightType type, int64_t out, int64_t in, int64_t tokens) {
  const MatmulProblem first({type, 1, out, in}, 1);
  std::vector<Weights> matrices;
  uint64_t bytes = 0;
  do {
    matrices.push_back(Weights::copied(first.weights));
    bytes += matrices.back().bytes();
  } while (tokens <= matmul_few_tokens && bytes < beyond_caches);
  return matrices;
}

MatmulMeasurement measure(WeightType type, int64_t tokens, int64_t out, int64_t in,
                          const Cpu& cpu) {
  const std::vector<Weights> matrices = rotation(type, out, in, tokens);
  const MatmulProblem problem({type, tokens, 1, in}, 2);
  Tensor<float> y({tokens, out});
  Timing timing = time_repeated([&] {
    for (const Weights& w : matrices) matmul(w, problem.x.view(), y.view(), cpu);
  });
  for (double* seconds : {&timing.median, &timing.low, &timing.high})
    *seconds /= double(matrices.size());
  return {type,
          tokens,
          out,
          in,
          double(matrices[0].bytes()) + 4.0 * double(tokens * (in + out)),
          2.0 * double(tokens * out * in),
          timing};
}

}  // namespace

std::vector<MatmulMeasurement> bench_matmul(const Cpu& cpu) {
  std::vector<MatmulMeasurement> rows;
  for (const auto& [out, in] :
       {std::pair<int64_t, int64_t>{1024, 1024}, {4096, 1024}, {1024, 4096}, {65536, 1024}})
    for (const WeightType type : weight_types)
      for (const int64_t tokens : {1, 8, 512}) rows.push_back(measure(type, tokens, out, in, cpu));
  return rows;
}

}  // namespace deltasane::kernel
