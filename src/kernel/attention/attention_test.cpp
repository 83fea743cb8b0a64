#include "kernel/attention/attention.h"

#include "kernel/attention/reference.h"
#include "kernel/rows/row_test_case.h"
#include "support/errors.h"

namespace deltasane::kernel {
namespace {

using namespace row_test;

struct AttentionSizes {
  int64_t before, time, heads, groups, keys, values, window, kept = 0;
};

// Keys and values of a token lie beside each other, as in a cache.
template <class Real>
struct AttentionCase {
  AttentionSizes n;
  Vector<Real> q, cache;
  explicit AttentionCase(const AttentionSizes& sizes)
      : n(sizes),
        q(as<Real>(normal_numbers(n.time * n.heads * n.keys, 2, 1))),
        cache(as<Real>(
            normal_numbers((n.before + n.time) * n.groups * (n.keys + n.values), 1, 2))) {}
  int64_t row() const { return n.groups * (n.keys + n.values); }

  Vector<Real> definition() const {
    Vector<Real> y(size_t(n.time * n.heads * n.values));
    for (int64_t t = 0; t < n.time; ++t)
      for (int64_t h = 0; h < n.heads; ++h) {
        const int64_t g = h / (n.heads / n.groups), end = n.before + t + 1;
        Vector<Real> k, v;
        for (int64_t s = 0; s < end; ++s) {
          if (n.window && s < end - n.window && s >= n.kept) continue;
          const Real* const at = cache.data() + s * row();
          k.insert(k.end(), at + g * n.keys, at + (g + 1) * n.keys);
          const Real* const values = at + n.groups * n.keys + g * n.values;
          v.insert(v.end(), values, values + n.values);
        }
        reference::attention<Real>(
            std::span(q).subspan(size_t((t * n.heads + h) * n.keys), size_t(n.keys)), k, v,
            Real(0.25), std::span(y).subspan(size_t((t * n.heads + h) * n.values), size_t(n.values)));
      }
    return y;
  }
};

class AttentionOf : public RowTest {
 protected:
  // The tokens [from, from + count).
  void attend(const AttentionCase<float>& one, int64_t from, int64_t count, Vector<float>& y) {
    const AttentionSizes& n = one.n;
    const int64_t rows = n.before + from + count;
    attention({{one.q.data() + from * n.heads * n.keys, {count, n.heads, n.keys}},
               {one.cache.data(), {rows, n.groups, n.keys}, {one.row(), n.keys, 1}},
               {one.cache.data() + n.groups * n.keys,
                {rows, n.groups, n.values},
                {one.row(), n.values, 1}},
               0.25f,
               n.window,
               n.kept,
               {y.data() + from * n.heads * n.values, {count, n.heads, n.values}}},
              cpu());
  }
};

constexpr AttentionSizes attention_shapes[] = {{0, 1, 1, 1, 4, 4, 0},    {0, 40, 4, 2, 16, 16, 0},
                            {37, 5, 6, 3, 19, 7, 0},  {100, 1, 8, 1, 33, 50, 0},
                            {64, 70, 2, 2, 8, 20, 0}, {50, 33, 4, 1, 16, 16, 9},
                            {3, 40, 2, 1, 16, 16, 1}, {150, 20, 4, 2, 16, 16, 40, 3},
                            {0, 90, 2, 1, 8, 8, 10, 40}};

TEST_P(AttentionOf, GroupedHeadsIsTheDefinition) {
  for (const AttentionSizes& n : attention_shapes) {
    const AttentionCase<float> one(n);
    Vector<float> found(size_t(n.time * n.heads * n.values), NAN);
    attend(one, 0, n.time, found);
    expect_close("attention", found, one.definition(), AttentionCase<double>(n).definition());
  }
}

TEST_P(AttentionOf, CutsAndThreadsLeaveNoTrace) {
  for (const AttentionSizes& n : attention_shapes) {
    const AttentionCase<float> one(n);
    Vector<float> whole(size_t(n.time * n.heads * n.values), NAN), parts = whole;
    attend(one, 0, n.time, whole);
    for (int64_t from = 0; from < n.time; from += 3)
      attend(one, from, std::min<int64_t>(3, n.time - from), parts);
    EXPECT_EQ(whole, parts);
  }
}

// Large scores, of which the largest comes last and late.
TEST_P(AttentionOf, LargeScoresDoNotOverflow) {
  const AttentionSizes n{95, 1, 1, 1, 4, 4, 0};
  AttentionCase<float> one(n);
  AttentionCase<double> truth(n);
  for (int64_t s = 0; s < 96; ++s)
    for (int64_t c = 0; c < 4; ++c) {
      const double value = double(s) * 3 - 100;
      one.cache[size_t(s * one.row() + c)] = float(value);
      truth.cache[size_t(s * one.row() + c)] = value;
    }
  Vector<float> found(4, NAN);
  attend(one, 0, 1, found);
  expect_close("attention", found, one.definition(), truth.definition());
}

TEST_P(AttentionOf, WrongShapesAreNamed) {
  Vector<float> x(100);
  const View<float> two{x.data(), {2, 3, 4}}, one{x.data(), {2, 2, 4}};
  EXPECT_FAULT(attention({two, one, one, 1, 0, 0, two}, cpu()), Fault::argument,
               "rows of heads that divide 3");
  EXPECT_FAULT(attention({two, {x.data(), {1, 1, 4}}, {x.data(), {1, 1, 4}}, 1, 0, 0, two}, cpu()),
               Fault::argument, "k: expected at least 2 rows");
}

INSTANTIATE_TEST_SUITE_P(Isas, AttentionOf, testing::ValuesIn(float_isas), isa_name);

}  // namespace
}  // namespace deltasane::kernel
