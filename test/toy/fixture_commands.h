// For tests: the program with one more architecture in its list, as a user runs it.
#pragma once

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "infer/state_file.h"
#include "support/process.h"
#include "toy/fixture.h"

namespace deltasane::toy {

struct ToyCommands : testing::Test {
  OpenToy toy{Plan{.sane = SaneSettings{0.5, 10}, .decays = {{{2, 3}, 1.0}}}};
  std::string output;

  // The exit code; words run in the folder of the model, which is called toy.safetensors.
  int run(const std::string& words) {
    const test::Outcome outcome =
        test::run({"sh", "-c", cat("cd '", toy.scratch.path().string(), "' && ", words)});
    output = outcome.output;
    return outcome.exit_code;
  }
  void expect(int code, const std::string& words, std::string_view part = "") {
    EXPECT_EQ(run("deltasane() { '" DELTASANE_PROGRAM "' \"$@\"; }; " + words), code)
        << words << "\n" << output;
    EXPECT_NE(output.find(part), std::string::npos) << words << "\n" << output;
  }
  nlohmann::json json(const std::string& words) {
    expect(0, "deltasane " + words + " --json 2>/dev/null");
    return nlohmann::json::parse(output);
  }
  fs::path file(const std::string& name) const { return toy.scratch.path() / name; }
  SavedState state(const std::string& name) const {
    const MappedFile map(file(name));
    return read_state(map.bytes(), name);
  }
};

}  // namespace deltasane::toy
