#include "kernel/sums/sums.h"

#include <vector>

namespace deltasane::kernel {

double sum_of_squares(std::span<const float> x, const Cpu& cpu) {
  constexpr int64_t together = 1 << 15;
  std::vector<double> sums(x.size() / together + 1);
  each_range(int64_t(x.size()), cpu, [&](int64_t begin, int64_t end) {
    double lanes[8] = {};
    int64_t i = begin;
    for (; i + 8 <= end; i += 8)
      for (int64_t lane = 0; lane < 8; ++lane)
        lanes[lane] += double(x[size_t(i + lane)]) * double(x[size_t(i + lane)]);
    for (; i < end; ++i) lanes[0] += double(x[size_t(i)]) * double(x[size_t(i)]);
    double& sum = sums[size_t(begin / together)];
    for (const double lane : lanes) sum += lane;
  });
  double sum = 0;
  for (const double part : sums) sum += part;
  return sum;
}

}  // namespace deltasane::kernel
