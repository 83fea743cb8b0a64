// Products that read or write other layouts: a chain's, and columns apart.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "kernel/isa_dispatch.h"
#include "kernel/matmul/check.h"
#include "kernel/matmul/matmul.h"

namespace deltasane::kernel {
namespace {

// A chain gives the bits of its products one after the other, in depths and tiles of any number.
TEST(MatmulChain, IsTwoProducts) {
  constexpr int64_t between = 1100;
  ThreadPool one(1), three(3);
  for (const WeightType type : {WeightType::q8, WeightType::q4_k, WeightType::f16, WeightType::f32})
    for (const Isa isa : built_isas)
      for (const int64_t tokens : {1, 13, 75})
        for (const int64_t in : {256, 1280}) {
          if (!usable(isa)) continue;
          const int64_t middle = type == WeightType::q4_k ? 1280 : between;
          const MatmulProblem first({type, tokens, middle, in}, 21),
              second({WeightType::q8, tokens, 70, middle, Store::add}, 22);
          for (ThreadPool* threads : {&one, &three}) {
            const Cpu cpu{*threads, isa};
            Tensor<float> apart({tokens, middle}), chained({tokens, middle});
            Tensor<float> y = second.y.clone(), expected = second.y.clone();
            matmul(first.weights, first.x.view(), apart.view(), cpu);
            activate(Activation::squared_relu, apart.view(), cpu);
            matmul(second.weights, apart.view(), expected.view(), cpu, Store::add);
            matmul_chain({first.weights, first.x.view(), chained.view(), Store::overwrite,
                          Activation::squared_relu},
                         {second.weights, chained.view(), y.view(), Store::add}, cpu);
            EXPECT_EQ(std::memcmp(y.data(), expected.data(), size_t(y.elements()) * 4), 0)
                << name_of(type) << " " << name_of(isa) << " " << tokens << " " << in;
          }
        }
}

// Columns that lie apart are those of rows, in another place.
TEST(MatmulColumns, AreThoseOfRows) {
  ThreadPool one(1), three(3);
  for (const WeightType type : {WeightType::q8, WeightType::q4, WeightType::f16, WeightType::f32})
    for (const Isa isa : built_isas)
      for (const int64_t tokens : {13, 75, 1030})
        for (const int64_t in : {96, 1120})
          for (const Store store : {Store::overwrite, Store::add}) {
            constexpr int64_t out = 192, width = 64;
            if (!usable(isa)) continue;
            const MatmulProblem problem({type, tokens, out, in, store}, 31);
            if (!multiplies_in_columns(problem.weights, tokens, isa)) continue;
            Tensor<float> rows = problem.y.clone(), apart({tokens, out});
            const auto at = [&](int64_t t, int64_t c) {
              return apart.data() + c / width * tokens * width + t * width + c % width;
            };
            for (int64_t t = 0; t < tokens; ++t)
              for (int64_t c = 0; c < out; ++c) *at(t, c) = rows.view()(t, c);
            for (ThreadPool* threads : {&one, &three}) {
              Tensor<float> y = rows.clone();
              const Cpu cpu{*threads, isa};
              matmul(problem.weights, problem.x.view(), y.view(), cpu, store);
              Tensor<float> columns = apart.clone();
              Matmul product{problem.weights, problem.x.view(), columns.view(), store};
              product.y_columns = width;
              matmul_all({&product, 1}, cpu);
              std::swap(apart, columns);
              bool equal = true;
              for (int64_t t = 0; t < tokens; ++t)
                for (int64_t c = 0; c < out; ++c)
                  equal = equal && std::memcmp(at(t, c), &y.view()(t, c), 4) == 0;
              std::swap(apart, columns);
              EXPECT_TRUE(equal) << name_of(type) << " " << name_of(isa) << " " << tokens << " "
                                 << in;
            }
          }
}

}  // namespace
}  // namespace deltasane::kernel
