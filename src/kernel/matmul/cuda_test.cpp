// Matrix products on a GPU against plain sums.
#include "kernel/matmul/cuda.h"

#include "base/cat.h"
#include "kernel/cuda/gpu_test_case.h"
#include "kernel/matmul/cuda_digest.h"

namespace deltasane::kernel::cuda {
namespace {

using Form = Products::Form;

struct Case {
  int64_t m, n, k, count;
};

class GpuProducts : public GpuTest {
 protected:
  template <class T>
  static Numbers<T> sums(Form form, const Case& of, const Numbers<float>& a,
                         const Numbers<float>& b, const Numbers<float>& before, bool add) {
    Numbers<T> c;
    for (int64_t s = 0; s < of.count; ++s)
      for (int64_t i = 0; i < of.m; ++i)
        for (int64_t j = 0; j < of.n; ++j) {
          T sum = 0;
          for (int64_t l = 0; l < of.k; ++l) {
            const int64_t of_a = form == Form::tn ? l * of.m + i : i * of.k + l;
            const int64_t of_b = form == Form::nt ? j * of.k + l : l * of.n + j;
            sum += T(a[size_t(s * of.m * of.k + of_a)]) * T(b[size_t(s * of.k * of.n + of_b)]);
          }
          c.push_back(add ? T(before[c.size()]) + sum : sum);
        }
    return c;
  }

  template <class In, class Out>
  void expect_products() {
    Products products(gpu());
    for (const Case& of : {Case{1, 1, 1, 1}, Case{7, 33, 5, 1}, Case{33, 64, 128, 1},
                           Case{1, 192, 64, 1}, Case{96, 40, 72, 3}, Case{256, 128, 768, 1}})
      for (const Form form : {Form::nt, Form::nn, Form::tn})
        for (const bool add : {false, true}) {
          const Numbers<float> a = random_numbers<In>(of.count * of.m * of.k, 1, 1);
          const Numbers<float> b = random_numbers<In>(of.count * of.k * of.n, 1, 2);
          const Numbers<float> before = random_numbers<Out>(of.count * of.m * of.n, 1, 3);
          const auto on_a = upload<In>(a), on_b = upload<In>(b);
          auto c = add ? upload<Out>(before) : poisoned<Out>(of.count * of.m * of.n);
          for (int again = 0; again < (add ? 1 : 2); ++again)  // the second finds its plan
            products.multiply<In, Out>({form, of.m, of.n, of.k, on_a.data(), on_b.data(), c.data(),
                                        add, of.count, of.m * of.k, of.k * of.n, of.m * of.n});
          expect_close(cat("form ", int(form), ", ", of.m, " x ", of.n, " x ", of.k, ", add ", add),
                       c, sums<float>(form, of, a, b, before, add),
                       sums<double>(form, of, a, b, before, add));
        }
  }
};

TEST_F(GpuProducts, OfFloats) { expect_products<float, float>(); }
TEST_F(GpuProducts, OfSixteenBits) { expect_products<bf16, bf16>(); }
TEST_F(GpuProducts, OfSixteenBitsToFloats) { expect_products<bf16, float>(); }

TEST_F(GpuProducts, OfSmallIntegersAreExact) {
  Products products(gpu());
  const Case of{64, 96, 160, 1};
  Random random(3);
  const auto integers = [&](int64_t count) {
    Numbers<float> x;
    for (int64_t i = 0; i < count; ++i) x.push_back(float(random.below(9)) - 4);
    return x;
  };
  const Numbers<float> a = integers(of.m * of.k), b = integers(of.k * of.n);
  const auto narrow_a = upload<bf16>(a), narrow_b = upload<bf16>(b);
  const auto wide_a = upload<float>(a), wide_b = upload<float>(b);
  const Numbers<float> more = integers(of.m * of.n);
  const auto plus = upload<float>(more);
  auto c = poisoned<float>(of.m * of.n);
  for (const Form form : {Form::nt, Form::nn, Form::tn}) {
    Numbers<float> expected = sums<float>(form, of, a, b, {}, false);
    products.multiply<bf16, float>(
        {form, of.m, of.n, of.k, narrow_a.data(), narrow_b.data(), c.data()});
    EXPECT_EQ(download(c), expected) << int(form);
    products.multiply<float, float>(
        {form, of.m, of.n, of.k, wide_a.data(), wide_b.data(), c.data()});
    EXPECT_EQ(download(c), expected) << int(form);
    Products::Product<bf16, float> onto{form,    of.m, of.n, of.k, narrow_a.data(), narrow_b.data(),
                                        c.data()};
    onto.addend = plus.data();
    products.multiply(onto);
    for (size_t i = 0; i < more.size(); ++i) expected[i] += more[i];
    EXPECT_EQ(download(c), expected) << int(form);
    EXPECT_EQ(download(plus), more);
  }
}

// An operand that starts where a tensor does not: the plan must not count on its alignment.
TEST_F(GpuProducts, OfOperandsThatStartAnywhere) {
  Products products(gpu());
  const Case of{16, 24, 32, 1};
  for (const int64_t apart : {1, 3, 8}) {
    Numbers<float> a = random_numbers<bf16>(apart + of.m * of.k, 1, 1);
    Numbers<float> b = random_numbers<bf16>(apart + of.n * of.k, 1, 2);
    const auto on_a = upload<bf16>(a), on_b = upload<bf16>(b);
    auto c = poisoned<float>(of.m * of.n);
    products.multiply<bf16, float>(
        {Form::nt, of.m, of.n, of.k, on_a.data() + apart, on_b.data() + apart, c.data()});
    a.erase(a.begin(), a.begin() + apart), b.erase(b.begin(), b.begin() + apart);
    expect_close(cat("from ", apart), c, sums<float>(Form::nt, of, a, b, {}, false),
                 sums<double>(Form::nt, of, a, b, {}, false));
  }
}

// Asked for often enough that other algorithms are tried; what is there is added to once each time.
TEST_F(GpuProducts, TheFastestOfferGivesTheSameBits) {
  const int64_t side = 1024;
  const int often = 5;
  const auto a = upload<bf16>(random_numbers<bf16>(side * side, 1, 1));
  const auto b = upload<bf16>(random_numbers<bf16>(side * side, 1, 2));
  const auto nothing = upload<bf16>(Numbers<float>(size_t(side * side), 0.0f));
  for (const Form form : {Form::nt, Form::nn, Form::tn})
    for (const bool add : {false, true}) {
      const auto result_of = [&](int autotune_after) {
        Products products(gpu(), autotune_after);
        auto c = upload<float>(Numbers<float>(size_t(side * side), 0.5f));
        for (int i = 0; i < 2 * often + 2; ++i)  // results of 0 say nothing
          products.multiply<bf16, float>({form, side, side, side, a.data(),
                                          i <= often ? nothing.data() : b.data(), c.data(), add});
        return download(c);
      };
      EXPECT_EQ(result_of(often), result_of(0)) << "form " << int(form) << ", add " << add;
    }
}

TEST_F(GpuProducts, ADigestSeesEveryBitAndPlace) {
  Numbers<int32_t> words(70001, 7);
  words[9] = 0, words[70000] = 1 << 31;
  const auto digest = [&] { return digest_of(upload(words).data(), int64_t(words.size()), gpu()); };
  const Digest first = digest();
  EXPECT_EQ(first.nonzero, words.size() - 1);
  EXPECT_EQ(digest(), first);
  for (const size_t at : {size_t(0), size_t(9), size_t(70000)}) {
    words[at] ^= 1;
    EXPECT_NE(digest().sum, first.sum) << at;
    words[at] ^= 1;
  }
  std::swap(words[9], words[10]);
  EXPECT_NE(digest().sum, first.sum);
  EXPECT_EQ(digest().nonzero, first.nonzero);
}

}  // namespace
}  // namespace deltasane::kernel::cuda
