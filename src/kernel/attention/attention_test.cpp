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

  // One query: its head, and the keys and values of the rows that it sees.
  struct Query {
    int64_t group;
    size_t query, read;  // where its q and y begin
    std::vector<int64_t> rows;
    Vector<Real> k, v;
  };
  Query query(int64_t t, int64_t h) const {
    const int64_t end = n.before + t + 1;
    Query one{h / (n.heads / n.groups), size_t((t * n.heads + h) * n.keys),
              size_t((t * n.heads + h) * n.values), {}, {}, {}};
    for (int64_t s = 0; s < end; ++s) {
      if (n.window && s < end - n.window && s >= n.kept) continue;
      one.rows.push_back(s);
      const Real* const at = cache.data() + s * row();
      one.k.insert(one.k.end(), at + one.group * n.keys, at + (one.group + 1) * n.keys);
      const Real* const values = at + n.groups * n.keys + one.group * n.values;
      one.v.insert(one.v.end(), values, values + n.values);
    }
    return one;
  }
  template <class Body>
  void each_query(const Body& body) const {
    for (int64_t t = 0; t < n.time; ++t)
      for (int64_t h = 0; h < n.heads; ++h) body(query(t, h));
  }

  Vector<Real> definition() const {
    Vector<Real> y(size_t(n.time * n.heads * n.values));
    each_query([&](const Query& one) {
      reference::attention<Real>(std::span(q).subspan(one.query, size_t(n.keys)), one.k, one.v,
                                 Real(0.25), std::span(y).subspan(one.read, size_t(n.values)));
    });
    return y;
  }

  // Of y; dcache is added to.
  void define_gradient(const Vector<Real>& dy, Vector<Real>& dq, Vector<Real>& dcache) const {
    each_query([&](const Query& one) {
      Vector<Real> dk(one.k.size()), dv(one.v.size());
      reference::attention_backward<Real>({std::span(q).subspan(one.query, size_t(n.keys)), one.k,
                                           one.v, Real(0.25),
                                           std::span(dy).subspan(one.read, size_t(n.values)),
                                           std::span(dq).subspan(one.query, size_t(n.keys)), dk,
                                           dv});
      for (size_t i = 0; i < one.rows.size(); ++i) {
        Real* const at = dcache.data() + one.rows[i] * row();
        for (int64_t c = 0; c < n.keys; ++c)
          at[one.group * n.keys + c] += dk[i * size_t(n.keys) + size_t(c)];
        for (int64_t c = 0; c < n.values; ++c)
          at[n.groups * n.keys + one.group * n.values + c] += dv[i * size_t(n.values) + size_t(c)];
      }
    });
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

TEST_P(AttentionOf, GradientsAreTheDefinition) {
  for (const AttentionSizes& n : attention_shapes) {
    const AttentionCase<float> one(n);
    const AttentionCase<double> exact(n);
    const Vector<double> dyd = normal_numbers(n.time * n.heads * n.values, 1, 3);
    const Vector<float> dy = as<float>(dyd);
    Vector<float> dq(one.q.size(), NAN), dcache(one.cache.size(), 0.5f);
    Vector<float> plain_dq(dq.size()), plain_dcache(dcache.size(), 0.5f);
    Vector<double> true_dq(dq.size()), true_dcache(dcache.size(), 0.5);
    one.define_gradient(dy, plain_dq, plain_dcache);
    exact.define_gradient(dyd, true_dq, true_dcache);
    const int64_t rows = n.before + n.time;
    const Shape keys{rows, n.groups, n.keys}, values{rows, n.groups, n.values};
    const Shape k_stride{one.row(), n.keys, 1}, v_stride{one.row(), n.values, 1};
    attention_backward({{one.q.data(), {n.time, n.heads, n.keys}},
                        {one.cache.data(), keys, k_stride},
                        {one.cache.data() + n.groups * n.keys, values, v_stride},
                        0.25f,
                        n.window,
                        n.kept,
                        {}},
                       {{dy.data(), {n.time, n.heads, n.values}},
                        {dq.data(), {n.time, n.heads, n.keys}},
                        {dcache.data(), keys, k_stride},
                        {dcache.data() + n.groups * n.keys, values, v_stride}},
                       cpu());
    expect_close("dq", dq, plain_dq, true_dq);
    expect_close("dk and dv", dcache, plain_dcache, true_dcache);
  }
}

TEST(AttentionDefinition, GradientIsThatOfTheLoss) {
  for (const AttentionSizes& n : {AttentionSizes{2, 3, 4, 2, 3, 2, 0}, {1, 5, 2, 1, 3, 2, 2, 1}}) {
    AttentionCase<double> one(n);
    const Vector<double> dy = normal_numbers(n.time * n.heads * n.values, 1, 3);
    Vector<double> dq(one.q.size()), dcache(one.cache.size());
    one.define_gradient(dy, dq, dcache);
    const auto loss = [&] { return dot(one.definition(), dy); };
    expect_gradient("q", one.q, dq, loss);
    expect_gradient("k and v", one.cache, dcache, loss);
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
