#include "infer/tuned_state.h"

#include <gtest/gtest.h>

#include <limits>

#include "format/fixture_pth.h"
#include "support/errors.h"
#include "support/scratch.h"

namespace deltasane {
namespace {

constexpr StateShape tuned_shape{2, 6, 2, 3};

// A .pth of so many layers; every number says its layer, head, row and column.
std::string tuned_file(int64_t layers, int64_t heads = 2, float spoiled = 0) {
  test::Pickle pickle;
  std::vector<std::string> storages;
  pickle.raw("}(");
  for (int64_t layer = 0; layer < layers; ++layer) {
    std::vector<float> values;
    for (int64_t i = 0; i < heads * 9; ++i) values.push_back(float(layer * 100 + i));
    values[0] += spoiled;
    pickle.text(cat("blocks.", layer, ".att.time_state"));
    pickle.tensor("FloatStorage", cat(layer), heads * 9, 0, {heads, 3, 3}, {9, 3, 1});
    storages.push_back(test::Bytes().floats(values).string());
  }
  return test::pth_of(pickle.raw("u").end(), storages);
}

RecurrentState read(const std::string& bytes) {
  const test::Scratch scratch;
  replace_file(scratch.path() / "tuned.pth", bytes);
  return read_tuned_state(scratch.path() / "tuned.pth", tuned_shape);
}

TEST(TunedState, FillsTheMemoryAndNothingElse) {
  const RecurrentState state = read(tuned_file(2));
  for (int64_t layer = 0; layer < 2; ++layer)
    for (int64_t i = 0; i < 18; ++i)
      EXPECT_EQ(state.memory()[layer * 18 + i], float(layer * 100 + i));
  for (const float value : state.shift().span()) EXPECT_EQ(value, 0.0f);
  EXPECT_EQ(state.position, 0);
}

TEST(TunedState, RefusesTheStateOfAnotherModel) {
  EXPECT_FAULT(read(tuned_file(1)), Fault::file, "expected the tensor blocks.1.att.time_state");
  EXPECT_FAULT(read(tuned_file(3)), Fault::file, "found 3 tensors");
  EXPECT_FAULT(read(tuned_file(2, 4)), Fault::file, "expected shape (2, 3, 3), found (4, 3, 3)");
  EXPECT_FAULT(read(tuned_file(2, 2, std::numeric_limits<float>::infinity())), Fault::overflow,
               "layer 0, head 0: row 0, column 0 is infinity");
}

}  // namespace
}  // namespace deltasane
