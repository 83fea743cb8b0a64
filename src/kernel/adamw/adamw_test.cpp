#include "kernel/adamw/adamw.h"

#include "kernel/adamw/reference.h"
#include "kernel/rows/row_test_case.h"

namespace deltasane::kernel {
namespace {

using namespace row_test;

TEST(Adamw, StepsAreTheDefinition) {
  ThreadPool threads(2);
  for (const int64_t count : {0, 1, 37, 40000})
    for (const double rate_factor : {1.0, 2.0}) {
      constexpr double decay = 0.1, beta1 = 0.9, beta2 = 0.99, eps = 1e-18;
      std::vector<double> truth = normal_numbers(count, 1, 1), tm(truth.size()), tv(truth.size());
      std::vector<float> found = as<float>(truth), plain = found, fm(found.size()), fv = fm,
                         pm = fm, pv = fm;
      for (int64_t step = 1; step <= 3; ++step) {
        const std::vector<double> gd = normal_numbers(count, 0.1, uint64_t(100 + step));
        const std::vector<float> g = as<float>(gd);
        const double rate = 0.01 / double(step);
        adamw_step({{rate, beta1, beta2, eps, step},
                    decay,
                    rate_factor,
                    count,
                    found.data(),
                    g.data(),
                    fm.data(),
                    fv.data()},
                   {threads});
        reference::adamw_step<float>(plain, g, pm, pv, step, float(rate * rate_factor),
                                     float(decay), float(beta1), float(beta2), float(eps));
        reference::adamw_step<double>(truth, gd, tm, tv, step, rate * rate_factor, decay, beta1,
                                      beta2, eps);
        if (count == 0) continue;
        expect_close("w", found, plain, truth);
        expect_close("m", fm, pm, tm);
        expect_close("v", fv, pv, tv);
      }
    }
}

}  // namespace
}  // namespace deltasane::kernel
