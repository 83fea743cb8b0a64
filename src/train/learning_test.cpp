// The recipes in examples/.
#include <gtest/gtest.h>

#include "base/io/file.h"
#include "train/config.h"

namespace deltasane::train {
namespace {

// Recipes that need files nobody has here are still read.
TEST(Learning, EveryRecipeIsUnderstood) {
  size_t recipes = 0;
  for (const auto& entry : fs::directory_iterator(fs::path(DELTASANE_SOURCE) / "examples")) {
    if (entry.path().extension() != ".toml") continue;
    const TrainConfig config = read_config(read_file(entry.path()), entry.path().string());
    EXPECT_GT(config.schedule.steps, 0);
    ++recipes;
  }
  EXPECT_GE(recipes, 3u);
}

}  // namespace
}  // namespace deltasane::train
