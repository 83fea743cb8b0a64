#include "kernel/embedding/cuda.h"

#include "kernel/embedding/reference.h"
#include "kernel/norm/cuda_definition.h"

namespace deltasane::kernel::cuda {
namespace {

using namespace rows_definition;

template <class T>
Numbers<T> embedded(const Numbers<int32_t>& tokens, const Numbers<float>& table,
                    const Numbers<float>& weight, const Numbers<float>& bias) {
  Numbers<float> x(tokens.size() * weight.size());
  reference::embed<float>(tokens, table, x);
  return normalized_rows<T>(x, weight, bias);
}

class GpuEmbedding : public GpuTest {};

TEST_F(GpuEmbedding, IsTheDefinition) {
  for (const RowBlock& rows : shapes()) {
    const int64_t C = rows.channels, vocabulary = 19;
    const Numbers<float> table = random_numbers<bf16>(vocabulary * C, 1, 1);
    const Numbers<float> weight = random_numbers<float>(C, 1, 2), bias = random_numbers<float>(C, 1, 3);
    Numbers<int32_t> tokens;
    for (int64_t i = 0; i < rows.rows(); ++i) tokens.push_back(int32_t(i * 7 % vocabulary));
    const auto wide = upload<float>(table);
    const auto narrow = upload<bf16>(table);
    const auto w = upload<float>(weight), b = upload<float>(bias);
    const auto t = upload(tokens);
    auto x = poisoned<float>(rows.rows() * C);
    embed(rows, t.data(), wide.data(), w.data(), b.data(), 1e-5f, x.data(), gpu());
    expect_close("x", x, embedded<float>(tokens, table, weight, bias),
                 embedded<double>(tokens, table, weight, bias));
    const Numbers<float> from_floats = download(x);
    x = poisoned<float>(rows.rows() * C);
    embed(rows, t.data(), narrow.data(), w.data(), b.data(), 1e-5f, x.data(), gpu());
    EXPECT_EQ(download(x), from_floats) << "a table in 16 bits that is exact";
    x = poisoned<float>(rows.rows() * C);
    embed(rows, t.data(), wide.data(), nullptr, nullptr, 0, x.data(), gpu());
    Numbers<float> plain(size_t(rows.rows() * C));
    reference::embed<float>(tokens, table, plain);
    EXPECT_EQ(download(x), plain) << "without a norm";
  }
}

// Rows are added in their order, so the sums are those of a plain loop, bit for bit.
TEST_F(GpuEmbedding, GradientIsAPlainLoop) {
  for (const RowBlock& rows : {RowBlock{1, 1, 64}, RowBlock{3, 11, 192}, RowBlock{2, 2500, 64}}) {
    const int64_t C = rows.channels;
    for (const int64_t vocabulary : {3, 1500}) {
      Random random(5);
      Numbers<int32_t> tokens;
      for (int64_t i = 0; i < rows.rows(); ++i)
        tokens.push_back(int32_t(random.below(uint64_t(vocabulary))));
      const Numbers<float> d = random_numbers<float>(rows.rows() * C, 1, 1);
      Numbers<float> expected = random_numbers<float>(vocabulary * C, 1, 2);
      const auto t = upload(tokens);
      const auto dx = upload<float>(d);
      auto dtable = upload<float>(expected);
      GpuTensor<int32_t> scratch(gpu(), {embed_scratch(rows, vocabulary)}, "a test");
      embed_backward(rows, t.data(), vocabulary, dx.data(), dtable.data(), scratch.data(), gpu());
      reference::embed_backward<float>(tokens, d, expected);
      EXPECT_EQ(download(dtable), expected) << rows.rows() << " rows, " << vocabulary << " tokens";
    }
  }
}

}  // namespace
}  // namespace deltasane::kernel::cuda
