#include "kernel/short_conv/cuda.h"

#include "kernel/rows/cuda_test_rows.h"
#include "kernel/short_conv/reference.h"

namespace deltasane::kernel::cuda {
namespace {

using namespace rows_definition;

struct ConvCase {
  RowBlock rows;
  int64_t taps, parts[3];
};
// Channels that eight divides and not, sequences shorter than the taps, more rows than runs, runs of
// several sequences.
const ConvCase conv_cases[] = {{{2, 9, 40}, 4, {8, 8, 24}},
                               {{3, 2, 15}, 4, {5, 5, 5}},
                               {{1, 21, 16}, 1, {8, 0, 8}},
                               {{2, 30, 8}, 7, {8, 0, 0}},
                               {{2, 700, 24}, 3, {8, 8, 8}},
                               {{401, 2, 8}, 4, {8, 0, 0}},
                               {{3, 2051, 64}, 4, {16, 16, 32}}};

// Numbers of (rows, C) as those of three packed matrices, one after the other, or back.
Numbers<float> parts_of(const ConvCase& n, const Numbers<float>& x) {
  Numbers<float> out;
  int64_t from = 0;
  for (const int64_t channels : n.parts) {
    for (int64_t row = 0; row < n.rows.rows(); ++row)
      for (int64_t c = 0; c < channels; ++c)
        out.push_back(x[size_t(row * n.rows.channels + from + c)]);
    from += channels;
  }
  return out;
}

template <class T>
struct ConvResult {
  Numbers<T> y, dx, dweight;  // dweight: (C, taps), added to 0.5
};
template <class T>
ConvResult<T> conv_definition(const ConvCase& n, const Numbers<float>& x,
                              const Numbers<float>& weight, const Numbers<float>& dy) {
  const int64_t C = n.rows.channels, time = n.rows.time;
  ConvResult<T> d{Numbers<T>(x.size()), Numbers<T>(x.size()), Numbers<T>(weight.size(), T(0.5f))};
  for (int64_t sequence = 0; sequence < n.rows.sequences; ++sequence)
    for (int64_t c = 0; c < C; ++c) {
      const auto at = [&](int64_t t) { return size_t((sequence * time + t) * C + c); };
      Numbers<T> xs, dys, dxs(static_cast<size_t>(time)), ws;
      for (int64_t t = 0; t < time; ++t) xs.push_back(x[at(t)]), dys.push_back(dy[at(t)]);
      for (int64_t j = 0; j < n.taps; ++j) ws.push_back(weight[size_t(c * n.taps + j)]);
      for (int64_t t = 0; t < time; ++t) d.y[at(t)] = reference::short_conv<T>(xs, ws, size_t(t));
      reference::short_conv_backward<T>(xs, ws, dys, dxs, row_of(d.dweight, c, n.taps));
      for (int64_t t = 0; t < time; ++t) d.dx[at(t)] = dxs[size_t(t)];
    }
  return d;
}

template <class Real>
class GpuShortConv : public GpuTest {};
TYPED_TEST_SUITE(GpuShortConv, Reals);

TYPED_TEST(GpuShortConv, AndItsGradientAreTheDefinition) {
  using Real = TypeParam;
  for (const ConvCase& n : conv_cases) {
    const int64_t rows = n.rows.rows(), C = n.rows.channels, all = rows * C;
    const Numbers<float> x = random_numbers<Real>(all, 1, 1),
                         weight = random_numbers<float>(C * n.taps, 0.5, 2),
                         dy = random_numbers<Real>(all, 1, 3);
    const auto from = this->template upload<Real>(x);
    const auto stored = this->template upload<float>(weight);
    auto turned = this->template poisoned<float>(C * n.taps);
    taps_first(stored.data(), C, n.taps, turned.data(), this->gpu());
    Numbers<int32_t> sequence, first, length;
    for (int64_t i = 0; i < rows; ++i) sequence.push_back(int32_t(i / n.rows.time));
    for (int64_t i = 0; i < n.rows.sequences; ++i) {
      first.push_back(int32_t(i * n.rows.time)), length.push_back(int32_t(n.rows.time));
    }
    const auto of_row = this->upload(sequence), begins = this->upload(first),
               lengths = this->upload(length);
    auto y = this->template poisoned<Real>(all), d = this->template upload<Real>(parts_of(n, dy));
    const auto parts = [&](Real* at, ShortConvPart<Real>(&to)[3]) {
      for (int i = 0; i < 3; ++i) to[i] = {at, n.parts[i]}, at += rows * n.parts[i];
    };
    ShortConv<Real> op;
    op.rows = {rows,          n.rows.sequences, n.rows.time, of_row.data(),
               begins.data(), lengths.data(),   nullptr,     nullptr};
    op.channels = op.step = C, op.taps = n.taps, op.x = from.data(), op.weight = turned.data();
    parts(y.data(), op.parts);
    short_conv(op, this->gpu());

    auto dx = this->template poisoned<Real>(all);
    auto dweight = this->template upload<float>(Numbers<float>(weight.size(), 0.5f));
    auto scratch = this->template poisoned<float>(short_conv_scratch(n.rows, n.taps));
    ShortConvGradient<Real> gradient;
    gradient.rows = n.rows, gradient.taps = n.taps, gradient.x = from.data();
    gradient.weight = turned.data(), gradient.dx = dx.data(), gradient.dweight = dweight.data();
    gradient.scratch = scratch.data();
    parts(d.data(), gradient.parts);
    short_conv_backward(gradient, this->gpu());

    const auto plain = conv_definition<float>(n, x, weight, dy);
    const auto truth = conv_definition<double>(n, x, weight, dy);
    const Numbers<float> true_y(truth.y.begin(), truth.y.end());
    this->expect_close("y", y, parts_of(n, plain.y), as<double>(parts_of(n, true_y)));
    this->expect_close("dx", dx, plain.dx, truth.dx);
    this->expect_close("dweight", dweight, plain.dweight, truth.dweight);
  }
}

}  // namespace
}  // namespace deltasane::kernel::cuda
