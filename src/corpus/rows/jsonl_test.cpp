#include <gtest/gtest.h>

#include "base/io/file.h"
#include "corpus/source.h"
#include "support/errors.h"
#include "support/scratch.h"

namespace deltasane::corpus {
namespace {

class Jsonl : public testing::Test {
 protected:
  std::unique_ptr<Source> open(std::string_view rows, std::string_view options = "") {
    replace_file(path_, rows);
    return open_source(cat("jsonl:", path_, options));
  }
  static std::string learned(const Piece& piece) {
    EXPECT_EQ(piece.learned.size(), 1u);
    return piece.text.substr(piece.learned[0].begin, piece.learned[0].end - piece.learned[0].begin);
  }

  test::Scratch scratch_;
  fs::path path_ = scratch_.path() / "rows.jsonl";
};

TEST_F(Jsonl, FillsTheTemplateAndLearnsTheLastField) {
  const auto source = open(
      "{\"question\": \"1+1?\", \"answer\": 2}\n\n"
      "{\"answer\": \"\\u56db\", \"question\": \"2+2?\", \"more\": []}\r\n");
  EXPECT_EQ(source->piece(0).text, "User: 1+1?\n\nAssistant: 2\n\n");
  EXPECT_EQ(learned(source->piece(0)), " 2\n\n");
  EXPECT_EQ(source->piece(1).text, "User: 2+2?\n\nAssistant: 四\n\n");
  EXPECT_EQ(source->piece(2).text, source->piece(0).text);
  const auto again = open_source(source->description());
  EXPECT_EQ(again->description(), source->description());
  EXPECT_EQ(again->piece(1).text, source->piece(1).text);
}

TEST_F(Jsonl, TakesOtherTemplates) {
  const std::string row = "{\"a\": \"x\", \"b\": 1.5}";
  const auto both = open(row, ",template=\"{{{a}}}, {b}!\"");
  EXPECT_EQ(both->piece(0).text, "{x}, 1.5!\n\n");
  EXPECT_EQ(learned(both->piece(0)), " 1.5!\n\n");
  const auto one = open(row, ",template=\">{a}\\n\"");
  EXPECT_EQ(one->piece(0).text, ">x\n");
  EXPECT_EQ(learned(one->piece(0)), ">x\n");
  const auto all = open(row, ",template={a} {b},learned=all");
  EXPECT_EQ(learned(all->piece(0)), "x 1.5\n\n");
  EXPECT_FAULT(open(row, ",template={a"), Fault::usage, "expected {field}");
  EXPECT_FAULT(open(row, ",template=a}"), Fault::usage, "expected { before }");
  EXPECT_FAULT(open(row, ",template=a"), Fault::usage, "at least one");
  EXPECT_FAULT(open(row, ",tmplate={a}"), Fault::usage, "The closest is 'template'");
}

TEST_F(Jsonl, ReshufflesEveryEpoch) {
  std::string rows;
  for (int i = 0; i < 20; ++i) rows += cat("{\"n\": ", i, "}\n");
  const auto source = open(rows, ",template=\"{n}\\n\",order=shuffled,seed=3");
  std::string epochs[2];
  for (uint64_t i = 0; i < 40; ++i) epochs[i / 20] += source->piece(i).text;
  EXPECT_NE(epochs[0], epochs[1]);
  for (int i = 0; i < 20; ++i)
    for (const std::string& epoch : epochs)
      EXPECT_NE(cat("\n", epoch).find(cat("\n", i, "\n")), std::string::npos);
}

TEST_F(Jsonl, NamesTheLineOfABadRow) {
  const std::string good = "{\"question\": \"q\", \"answer\": \"a\"}\n";
  EXPECT_FAULT(open(good + "\n{\"question\": \"q\"}\n"), Fault::file,
               "rows.jsonl:3: expected the field 'answer'");
  EXPECT_FAULT(open(good + "{\"question\": "), Fault::file, "rows.jsonl:2: expected a JSON object");
  EXPECT_FAULT(open(good + "[1]\n" + good), Fault::file, "rows.jsonl:2: expected a JSON object");
  EXPECT_FAULT(open("{\"question\": \"q\", \"answer\": null}"), Fault::file,
               "rows.jsonl:1: expected a text or a number as 'answer', found null");
  EXPECT_FAULT(open(" \n\n"), Fault::file, "empty corpus");
  EXPECT_FAULT(open_source("jsonl:/nowhere/x.jsonl"), Fault::file, "cannot open");
}

}  // namespace
}  // namespace deltasane::corpus
