#include "model/rwkv7/tuned_state/tuned_state.h"

#include <gtest/gtest.h>

#include <limits>

#include "format/pth/fixture_pth.h"
#include "model/fixture_forward.h"
#include "support/errors.h"
#include "support/scratch.h"

namespace deltasane {
namespace {

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

SequenceState read(const std::string& bytes) {
  const test::Scratch scratch;
  replace_file(scratch.path() / "tuned.pth", bytes);
  return read_tuned_state(scratch.path() / "tuned.pth", test::uniform_layout(2, 6, 2, 3));
}

TEST(TunedState, FillsTheMemoryAndNothingElse) {
  const SequenceState state = read(tuned_file(2));
  for (int64_t layer = 0; layer < 2; ++layer)
    for (int64_t i = 0; i < 18; ++i)
      EXPECT_EQ(test::memories(state)[size_t(layer * 18 + i)], float(layer * 100 + i));
  for (const float value : test::shifts(state)) EXPECT_EQ(value, 0.0f);
  EXPECT_EQ(state.position, 0);
}

TEST(TunedState, RefusesTheStateOfAnotherModel) {
  EXPECT_FAULT(read(tuned_file(1)), Fault::file, "expected the tensor blocks.1.att.time_state");
  EXPECT_FAULT(read(tuned_file(3)), Fault::file, "found 3 tensors");
  EXPECT_FAULT(read(tuned_file(2, 4)), Fault::file, "expected shape (2, 3, 3), found (4, 3, 3)");
  EXPECT_FAULT(read(tuned_file(2, 2, std::numeric_limits<float>::infinity())), Fault::overflow,
               "tensor 'blocks.0.att.time_state': inf at element 0");
}

}  // namespace
}  // namespace deltasane
