// The command as a user runs it.
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/cat.h"
#include "base/io/file.h"
#include "corpus/source.h"
#include "format/npy/npy.h"
#include "support/process.h"
#include "support/scratch.h"

namespace deltasane::cli {
namespace {

class CorpusCommand : public testing::Test {
 protected:
  // Exit code and output of `deltasane corpus ...`; errors go to the output too.
  std::pair<int, std::string> run(const std::string& words) {
    const test::Outcome outcome =
        test::run({"sh", "-c",
                   cat("cd '", scratch_.path(), "' && '", DELTASANE_PROGRAM, "' corpus ", words)});
    return {outcome.exit_code, outcome.output};
  }
  std::string file(const char* name) { return read_file(scratch_.path() / name); }
  size_t files() {
    return size_t(std::distance(fs::directory_iterator(scratch_.path()), fs::directory_iterator()));
  }

  test::Scratch scratch_;
};

TEST_F(CorpusCommand, WritesWholePiecesAndGoesOnBehindThem) {
  const auto source = corpus::open_source("math-chat:seed=3");
  std::string expected;
  uint64_t pieces = 0;
  while (expected.size() < 5000) expected += source->piece(pieces++).text;
  EXPECT_EQ(run("math-chat:seed=3 --bytes 5000"), std::pair(0, expected));
  EXPECT_EQ(run("math-chat:seed=3 --bytes 5000 --out a.txt").first, 0);
  EXPECT_EQ(file("a.txt"), expected);
  EXPECT_EQ(run(cat("math-chat:seed=3 --bytes 1 --skip ", pieces)).second,
            source->piece(pieces).text);
}

TEST_F(CorpusCommand, EndedByASignalItLeavesNothing) {
  const size_t before = files();
  const test::Outcome ended = test::run(
      {"sh", "-c",
       cat("cd '", scratch_.path(), "' && { '", DELTASANE_PROGRAM,
           "' corpus math-chat: --bytes 1000000000000000 --out big & p=$!; }; "
           "while kill -0 $p && [ -z \"$(find . -name 'big.tmp-*' -size +0)\" ]; do sleep 0.01; done; "
           "kill -TERM $p; wait $p")});
  EXPECT_EQ(ended.exit_code, 128 + 15) << ended.output;
  EXPECT_EQ(files(), before);
}

TEST_F(CorpusCommand, AFamilyThatALevelHasNotIsTold) {
  const auto [code, text] = run("math-chat:level=1,family=multiplication");
  EXPECT_EQ(code, 2);
  EXPECT_NE(text.find("has problems of level 1, found 'level=1,family=multiplication'\n"), text.npos) << text;
}

TEST_F(CorpusCommand, WritesRowsProblemsAndTokens) {
  ASSERT_EQ(run("math-chat: --problems 3 --out p.jsonl").first, 0);
  ASSERT_EQ(run("math-chat: --bytes 1 --format jsonl --out r.jsonl").first, 0);
  ASSERT_EQ(run("math-chat: --tokens 70000 --tokenizer byte --out t.npy").first, 0);
  const auto problem = nlohmann::json::parse(file("p.jsonl").substr(0, file("p.jsonl").find('\n')));
  const auto row = nlohmann::json::parse(file("r.jsonl"));
  const std::string text = row["text"];
  EXPECT_EQ(text, cat("User: ", problem["question"].get<std::string>(),
                      "\n\nAssistant: ", problem["solution"].get<std::string>(), "\n\n"));
  EXPECT_EQ(row["learned"][0][1], text.size());
  const NpyArray array = open_npy(scratch_.path() / "t.npy");
  EXPECT_EQ(array.shape, (Shape{70000}));
  std::vector<int32_t> ids(text.size());
  array.read(0, ids);
  EXPECT_EQ(std::string(ids.begin(), ids.end()), text);
  // What one run wrote, another reads.
  EXPECT_EQ(run("npy:t.npy,piece=8 --bytes 8 --tokenizer byte").second, text.substr(0, 8));
  EXPECT_EQ(run("'jsonl:p.jsonl,template=\"{answer}\\n\"' --bytes 1").second,
            cat(problem["answer"].get<std::string>(), "\n"));
}

TEST_F(CorpusCommand, SumsUpWithoutWriting) {
  const auto [code, output] = run("math-chat:level=2 --bytes 5000 --json");
  ASSERT_EQ(code, 0);
  const auto summary = nlohmann::json::parse(output);
  EXPECT_EQ(summary["source"],
            "math-chat:seed=1,split=train,level=2-2,language=en,style=graded,family=all");
  EXPECT_GE(summary["bytes"], 5000);
  EXPECT_EQ(files(), 0u);
}

TEST_F(CorpusCommand, RefusesAndLeavesNothingBehind) {
  for (const char* words : {"", "math-chat:sed=1", "math-chat: --bytes 0", "math-chat: --tokens 5",
                            "math-chat: --format npy", "math-chat: --bytes 1 --problems 1",
                            "text:x --problems 1", "math-chat: --byte 5"})
    EXPECT_EQ(run(words).first, 2) << words;
  replace_file(scratch_.path() / "empty.txt", "");
  for (const char* words : {"text:empty.txt --out o", "prose:nowhere --out o",
                            "math-chat: --out no/such/o", "math-chat: --bytes 5000 > /dev/full"})
    EXPECT_EQ(run(words).first, 1) << words;
  EXPECT_EQ(files(), 1u);
}

}  // namespace
}  // namespace deltasane::cli
