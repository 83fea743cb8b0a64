// What is refused, and that it is said at once.
#include <fmt/format.h>

#include <iostream>

#include "base/io/file.h"
#include "cli/terminal/fixture_terminal.h"
#include "cli/terminal/terminal.h"
#include "cli/text/fixture_text_commands.h"

namespace deltasane::cli {
namespace {

// Before the model is opened.
TEST_F(TextCommands, FilesThatCannotBeWrittenAreToldFirst) {
  const std::string folder = scratch_.path();
  const std::pair<std::string, const char*> targets[] = {{folder, "found a folder"},
                                                         {folder + "/none/x", "cannot create"},
                                                         {"/dev/full", "expected a regular file"}};
  for (const auto& [target, what] : targets)
    for (const std::string command : {"generate nowhere.pth -p x --state-out ", "score nowhere.pth -f x --logits ",
                                      "score nowhere.pth -f x --importance "}) {
      const test::Outcome outcome = shell("deltasane " + command + target);
      EXPECT_EQ(outcome.exit_code, 1) << outcome.output;
      EXPECT_NE(outcome.output.find(what), std::string::npos) << command << target << "\n" << outcome.output;
    }
}

TEST_F(TextCommands, RefuseWhatWouldBeIgnored) {
  expect_misuse("deltasane tokenize byte --text x --decode 65", "found several");
  EXPECT_EQ(shown("deltasane tokenize byte --text ''"), "\n");
  EXPECT_EQ(shown("printf '' | deltasane tokenize byte --json"), "{\"count\":0,\"ids\":[]}\n");
  expect_misuse("deltasane generate $m -p x --mode think", "--mode: expected --chat with it, found none");
  expect_misuse("deltasane generate $m -p x --template world",
                "--template: expected --chat with it, found none");
  expect_misuse("deltasane generate $m -p x --sane-alpha 1e300", "expected at most 1e+30, found 1e+300");
  expect_misuse("deltasane graft $m $m.safetensors --alpha 1e300",
                "alpha: expected a number above 0, up to 1e+30, found 1e+300");
  EXPECT_NE(shown("deltasane serve --help | tr -s ' \\n' ' '").find("/v1/completions: 16"), std::string::npos);
  expect_misuse("deltasane bench load $m", "expected a .pth, as other formats have no checksums");
}

TEST_F(TextCommands, AMissingTokenizerIsMissedHere) {
  write_rwkv7_safetensors(scratch_.path() / "wide.safetensors",
                          RandomRwkv7({1, 32, 2, 16, 128, 1024, 8, 8, 8, 8}, 1), StoredType::f16, {});
  const test::Outcome outcome =
      shell("cd " + scratch_.path().string() + "; deltasane generate wide.safetensors -p x");
  EXPECT_NE(outcome.output.find("rwkv_vocab_v20230424.txt in ., found none"), std::string::npos)
      << outcome.output;
}

TEST_F(TextCommands, AnErrorOnATerminalHasALineOfItsOwn) {
  test::TerminalProcess process(
      [] {
        guard_terminals();
        std::cout << "half a line";
        end_output_line();
        std::cerr << "what is wrong\n";
        end_output_line();
        std::cerr << "more\n";
      },
      80);
  process.wait_for_end();
  EXPECT_NE(process.output().find("half a line\r\nwhat is wrong\r\nmore\r\n"), std::string::npos)
      << process.output();
}

TEST_F(TextCommands, RefuseIdsThatNoTokenHas) {
  EXPECT_EQ(shown("deltasane tokenize byte --decode 49 255 | od -An -tx1"), " 31 ff 0a\n");
  expect_misuse("deltasane tokenize byte --decode 49 300",
                "--decode: expected ids from 0 to 255, found 300");
  expect_misuse("deltasane tokenize byte --decode -1", "found -1");
  expect_misuse("deltasane tokenize byte --json --decode 256", "found 256");
}

TEST_F(TextCommands, RefuseTheTokenizerOfAnotherModel) {
  const std::string large = scratch_.path() / "large.txt",
                    wide = scratch_.path() / "wide.safetensors";
  std::string text;
  for (int i = 0; i < 256; ++i) text += fmt::format("{} b'\\x{:02x}' 1\n", i + 1, i);
  for (int i = 257; i <= 300; ++i) text += fmt::format("{} 't{}' 4\n", i, i);
  replace_file(large, text);
  expect_misuse("deltasane generate $m -p x --tokenizer " + large,
                large + ": expected one for the 256 tokens of " + model_ + ", found one of 301");
  write_rwkv7_safetensors(wide, RandomRwkv7({1, 32, 2, 16, 128, 1024, 8, 8, 8, 8}, 1),
                          StoredType::f16, {});
  expect_misuse(
      "deltasane generate " + wide + " -p x --tokenizer byte",
      "--tokenizer byte: expected one for the 1024 tokens of " + wide + ", found one of 256");
}

}  // namespace
}  // namespace deltasane::cli
