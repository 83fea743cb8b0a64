#include "kernel/decay/cuda.h"

#include "kernel/decay/reference.h"
#include "kernel/rows/cuda_test_rows.h"

namespace deltasane::kernel::cuda {
namespace {

using namespace rows_definition;

struct DecayCase {
  int64_t rows, heads, size;  // size 0: no decay
  std::optional<float> bound;
  bool has_beta;
};
const DecayCase decay_cases[] = {{7, 3, 1, {}, true},     {5, 2, 16, {}, true},
                                 {3, 4, 5, -5.0f, true},  {9, 2, 0, {}, true},
                                 {2100, 4, 1, {}, false}, {1500, 2, 40, -5.0f, true}};

template <class Real>
class GpuDecay : public GpuTest {};
TYPED_TEST_SUITE(GpuDecay, Reals);

TYPED_TEST(GpuDecay, AndItsGradientAreTheDefinition) {
  using Real = TypeParam;
  for (const DecayCase& n : decay_cases) {
    const int64_t decays = n.heads * n.size, all = n.rows * decays, heads = n.rows * n.heads;
    const Numbers<float> z = random_numbers<float>(all, 2, 1),
                         z_beta = random_numbers<float>(heads, 2, 2),
                         log_rate = random_numbers<float>(n.heads, 1, 3),
                         bias = random_numbers<float>(decays, 1, 4),
                         dg = random_numbers<float>(all, 1, 5),
                         dbeta = random_numbers<float>(heads, 1, 6);
    struct Found {
      Numbers<double> g, beta, dz, dz_beta, dlog_rate, dbias;
    };
    const auto definition = [&]<class T>(T) {
      Found f;
      f.dlog_rate.assign(size_t(n.heads), 0.5), f.dbias.assign(size_t(decays), 0.5);
      Numbers<T> dlog(size_t(n.heads), T(0.5f)), db(size_t(decays), T(0.5f));
      const std::optional<T> bound = n.bound ? std::optional<T>(*n.bound) : std::nullopt;
      for (int64_t i = 0; i < all; ++i) {
        const auto c = size_t(i % decays), h = c / size_t(n.size);
        const T x = T(z[size_t(i)]) + T(bias[c]), rate = std::exp(T(log_rate[h]));
        const auto by = reference::log_decay_derivatives<T>(x, rate, bound);
        f.g.push_back(double(reference::log_decay<T>(x, rate, bound)));
        f.dz.push_back(double(T(dg[size_t(i)]) * by.x));
        db[c] += T(dg[size_t(i)]) * by.x, dlog[h] += T(dg[size_t(i)]) * by.log_rate;
      }
      for (size_t i = 0; i < size_t(heads); ++i) {
        const T s = reference::sigmoid(T(z_beta[i]));
        f.beta.push_back(double(n.has_beta ? 2 * s : T(1)));
        f.dz_beta.push_back(double(T(dbeta[i]) * 2 * s * (1 - s)));
      }
      f.dlog_rate.assign(dlog.begin(), dlog.end()), f.dbias.assign(db.begin(), db.end());
      return f;
    };
    // Those of beta and of the decays in one row, as the model has them.
    const int64_t step = n.heads + decays;
    Numbers<float> both(size_t(n.rows * step));
    for (int64_t i = 0; i < n.rows * step; ++i) {
      const int64_t row = i / step, column = i % step;
      both[size_t(i)] = column < n.heads ? z_beta[size_t(row * n.heads + column)]
                                         : z[size_t(row * decays + column - n.heads)];
    }
    const auto from = this->template upload<float>(both),
               log = this->template upload<float>(log_rate), b = this->template upload<float>(bias),
               d_beta = this->template upload<float>(dbeta);
    auto rate = this->template poisoned<float>(n.heads), g = this->template poisoned<float>(all),
         beta = this->template poisoned<float>(heads), d = this->template upload<float>(dg);
    decay_rates(log.data(), n.heads, rate.data(), this->gpu());
    DecayAndBeta op;
    op.rows = n.rows, op.heads = n.heads, op.beta_scale = 2, op.beta = beta.data();
    if (n.size) {
      op.size = n.size, op.z = from.data() + n.heads, op.z_step = step, op.rate = rate.data();
      op.bias = b.data(), op.bound = n.bound.value_or(0), op.g = g.data();
    }
    if (n.has_beta) op.z_beta = from.data(), op.beta_step = step;
    decay_and_beta(op, this->gpu());
    auto dboth = this->template upload<Real>(Numbers<float>(both.size(), 0.25f));
    auto dlog_rate = this->template upload<float>(Numbers<float>(size_t(n.heads), 0.5f)),
         dbias = this->template upload<float>(Numbers<float>(size_t(decays), 0.5f)),
         scratch = this->template poisoned<float>(decay_scratch(n.rows, decays));
    decay_and_beta_backward<Real>({op, d.data(), d_beta.data(), dboth.data() + n.heads, dboth.data(),
                                   dlog_rate.data(), dbias.data(), scratch.data()},
                                  this->gpu());
    const Found plain = definition(1.0f), truth = definition(1.0);
    const auto floats = [](const Numbers<double>& x) { return Numbers<float>(x.begin(), x.end()); };
    this->expect_close("beta", beta, floats(plain.beta), truth.beta);
    const auto in_rows = [&](const Found& found) {
      Numbers<double> rows;
      for (int64_t i = 0; i < n.rows * step; ++i) {
        const int64_t row = i / step, column = i % step;
        const bool of_beta = column < n.heads;
        rows.push_back(!(of_beta ? n.has_beta : n.size > 0) ? 0.25
                       : of_beta ? found.dz_beta[size_t(row * n.heads + column)]
                                 : found.dz[size_t(row * decays + column - n.heads)]);
      }
      return rows;
    };
    this->expect_close("dz_beta and dz", dboth, floats(in_rows(plain)), in_rows(truth));
    if (!n.size) continue;
    this->expect_close("g", g, floats(plain.g), truth.g);
    this->expect_close("dlog_rate", dlog_rate, floats(plain.dlog_rate), truth.dlog_rate);
    this->expect_close("dbias", dbias, floats(plain.dbias), truth.dbias);
  }
}

}  // namespace
}  // namespace deltasane::kernel::cuda
