// bf16: each product is the float product of rounded operands, bit for bit; the whole step is the
// definition with the same roundings.
#include "model/train/rounding.h"

#include <gtest/gtest.h>

#include <cmath>

#include "model/rwkv7/reference/reference.h"
#include "model/rwkv7/train/cpu_pass.h"
#include "model/rwkv7/train/fixture.h"
#include "model/rwkv7/train/gradient_pass.h"

namespace deltasane::rwkv7 {
namespace {

using test::random_batch;
using test::small_heads_shape;

Tensor<float> random_rows(int64_t rows, int64_t columns, uint64_t seed) {
  Tensor<float> made({rows, columns});
  Random random(seed);
  for (float& x : made.span()) x = float(random.normal());
  return made;
}

Tensor<float> rounded_copy(const Tensor<float>& rows) {
  Tensor<float> copy(rows.shape());
  for (int64_t i = 0; i < rows.elements(); ++i) copy[i] = rounded_to_bf16(rows[i]);
  return copy;
}

// What a product and its backward pass give: y, dx and the matrix's gradient.
struct Product {
  Tensor<float> y, dx;
  std::vector<float> gradient;
  friend bool operator==(const Product& a, const Product& b) {
    return std::ranges::equal(a.y.span(), b.y.span()) &&
           std::ranges::equal(a.dx.span(), b.dx.span()) && a.gradient == b.gradient;
  }
};

enum class Kind { linear, factor };

Product product_of(const Parameters& model, Rounding* rounding, const std::string& name, Kind kind,
                   const Tensor<float>& x, const Tensor<float>& dy) {
  const Rwkv7Shape shape = small_heads_shape(false);
  const Slot slot = &model.layout().slot(name);
  ThreadPool threads(2);
  const kernel::Cpu cpu{threads};
  Product found{Tensor<float>(dy.shape()), Tensor<float>(x.shape()),
                std::vector<float>(model.all().size())};
  if (rounding) rounding->take_parameters(model.all(), cpu);
  CpuPass c{{{}, 1, x.shape()[0], model.all(), found.gradient, cpu}, shape};
  c.rounding = rounding;
  if (kind == Kind::linear) {
    linear(c, slot, x.view(), found.y.view());
    linear_backward(c, slot, x.view(), dy.view(), found.dx.view());
  } else {
    factor(c, slot, x.view(), found.y.view());
    factor_backward(c, slot, x.view(), dy.view(), found.dx.view());
  }
  return found;
}

TEST(Rounding, AProductTakesRoundedOperandsAndNothingElse) {
  const Rwkv7Shape shape = small_heads_shape(false);
  const Parameters model = test::random_parameters(shape, 3, std::nullopt);
  Parameters rounded_model = model.clone();
  for (float& x : rounded_model.all()) x = rounded_to_bf16(x);
  for (const int64_t rows : {1, 7, 30}) {
    const auto expect_equal = [&](const std::string& name, Kind kind, int64_t in, int64_t out) {
      const Tensor<float> x = random_rows(rows, in, 1), dy = random_rows(rows, out, 2);
      Rounding rounding;
      const Product found = product_of(model, &rounding, name, kind, x, dy);
      EXPECT_TRUE(found ==
                  product_of(rounded_model, nullptr, name, kind, rounded_copy(x), rounded_copy(dy)))
          << name << " " << rows;
      EXPECT_FALSE(found == product_of(rounded_model, nullptr, name, kind, x, rounded_copy(dy)));
      EXPECT_FALSE(found == product_of(rounded_model, nullptr, name, kind, rounded_copy(x), dy));
      EXPECT_FALSE(found ==
                   product_of(model, nullptr, name, kind, rounded_copy(x), rounded_copy(dy)));
    };
    expect_equal("blocks.1.ffn.key.weight", Kind::linear, shape.channels, shape.feed_forward);
    expect_equal("blocks.2.att.v1", Kind::factor, shape.channels, shape.rank_v);
  }
}

struct PrecisionCase {
  std::optional<SaneSettings> sane;
  bool padding;
};

double distance(std::span<const double> a, std::span<const double> b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
  return std::sqrt(sum);
}

// The definition with roundings shows what they cost; the step costs as much, up to a factor of two
// both ways: a rounding too few is as wrong as one too many. Single numbers cannot be compared:
// where float arithmetic differs in its last bit, one of the two rounds up and the other down, and
// all that follows differs by more.
TEST(Rounding, AStepIsTheDefinitionWithTheSameRoundings) {
  ThreadPool threads(2);
  std::vector<double> losses, plain_losses, true_losses;
  for (const PrecisionCase& one :
       {PrecisionCase{std::nullopt, false}, PrecisionCase{SaneSettings{1.0, 16}, false},
        PrecisionCase{SaneSettings{0.5, 16}, true}}) {
    const Rwkv7Shape shape = small_heads_shape(one.sane.has_value());
    const Parameters model = test::random_parameters(shape, 5, one.sane);
    TrainingBatch batch = random_batch(shape, 2, 37);
    if (one.padding) batch = test::padded(std::move(batch));
    const LossSettings settings{batch.weight_total(), 1e-2};
    std::vector<float> found(model.all().size()), plain(found);
    std::vector<double> exact(model.all().begin(), model.all().end()), truth(found.size());
    const auto pass =
        make_gradient_pass(shape, one.sane, {2, 37, Activations::keep, Precision::bf16});
    const double loss = pass->gradient(model.all(), batch, settings, found, {threads});
    const auto plain_loss = reference::training_loss<float>(shape, one.sane, model.all(), batch,
                                                            settings, plain, Precision::bf16);
    const auto true_loss =
        reference::training_loss<double>(shape, one.sane, exact, batch, settings, truth);
    losses.push_back(loss), plain_losses.push_back(double(plain_loss.cross_entropy));
    true_losses.push_back(true_loss.cross_entropy);
    for (const ParameterSlot& slot : model.layout().slots()) {
      const auto part = [&](const auto& all) {
        const auto begin = all.begin() + slot.offset;
        return std::vector<double>(begin, begin + slot.elements());
      };
      const double cost = distance(part(found), part(truth));
      const double expected = distance(part(plain), part(truth));
      EXPECT_LE(cost, 2 * expected) << slot.name;
      EXPECT_GE(cost, expected / 2) << slot.name;
    }
  }
  EXPECT_LE(distance(losses, true_losses), 2 * distance(plain_losses, true_losses));
}

}  // namespace
}  // namespace deltasane::rwkv7
