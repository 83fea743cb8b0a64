// What people type, through a shell, with a small model.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <string_view>

#include "model/rwkv7/checkpoint/write.h"
#include "model/rwkv7/random.h"
#include "support/process.h"
#include "support/scratch.h"

namespace deltasane::cli {

class TextCommands : public testing::Test {
 protected:
  TextCommands() {
    write_rwkv7_safetensors(model_, RandomRwkv7({1, 32, 2, 16, 128, 256, 8, 8, 8, 8}, 1),
                            StoredType::f16, {});
  }
  static test::Outcome shell(const std::string& line) {
    return test::run({"sh", "-c", "deltasane() { '" DELTASANE_PROGRAM "' \"$@\"; }; " + line});
  }
  std::string shown(const std::string& line) const {
    const test::Outcome outcome = shell("m='" + model_ + "'; " + line);
    EXPECT_EQ(outcome.exit_code, 0) << line << "\n" << outcome.output;
    return outcome.output;
  }
  // In one line, with exit code 2.
  void expect_misuse(const std::string& line, std::string_view what) const {
    const test::Outcome outcome = shell("m='" + model_ + "'; " + line);
    EXPECT_EQ(outcome.exit_code, 2) << line << "\n" << outcome.output;
    EXPECT_NE(outcome.output.find(what), std::string::npos) << line << "\n" << outcome.output;
    EXPECT_EQ(std::ranges::count(outcome.output, '\n'), 1) << line << "\n" << outcome.output;
  }

  test::Scratch scratch_;
  std::string model_ = scratch_.path() / "model.safetensors";
};

}  // namespace deltasane::cli
