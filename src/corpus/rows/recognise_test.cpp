#include <gtest/gtest.h>

#include "corpus/rows/render.h"

namespace deltasane::corpus {
namespace {

RenderedRow rendered(std::string_view row) { return recognising_renderer()->render(row); }

// The text, with learned parts in brackets.
std::string marked(std::string_view row) {
  const RenderedRow out = rendered(row);
  if (out.dropped) return "dropped: " + std::string(name_of(*out.dropped));
  std::string text = out.piece.text;
  for (auto span = out.piece.learned.rbegin(); span != out.piece.learned.rend(); ++span)
    text.insert(span->end, "]").insert(span->begin, "[");
  return text;
}

TEST(RecognisedRows, AreChats) {
  const std::string chat = "User: q\nr\n\nAssistant:[ <think>\na\n\nb</think>\nc\n\n]";
  EXPECT_EQ(marked(R"({"conversations": [{"from": "human", "value": " q\n\nr"},
            {"from": "gpt", "value": "<think>\na\n\nb</think>\nc\n"}]})"),
            chat);
  EXPECT_EQ(marked(R"({"messages": [{"role": "user", "content": "q\r\n\r\nr", "name": null},
            {"role": "assistant", "content": "<think>\na\n\nb</think>\nc"}], "text": "not this"})"),
            chat);
  EXPECT_EQ(marked(R"({"system": "s", "messages": [{"role": "user", "content": "a"},
            {"role": "assistant", "content": "b"}, {"role": "user", "content": "c"},
            {"role": "assistant", "content": "d"}]})"),
            "System: s\n\nUser: a\n\nAssistant:[ b\n\n]User: c\n\nAssistant:[ d\n\n]");
}

TEST(RecognisedRows, AreQuestionsAndAnswers) {
  const std::string pair = "User: q\n\nAssistant:[ a\n\n]";
  EXPECT_EQ(marked(R"({"prompt": "q", "response": "a"})"), pair);
  EXPECT_EQ(marked(R"({"prompt": "q", "completion": "a"})"), pair);
  EXPECT_EQ(marked(R"({"instruction": "q", "input": "", "output": "a"})"), pair);
  EXPECT_EQ(marked(R"({"instruction": "q", "input": "i", "output": "a"})"),
            "User: q\ni\n\nAssistant:[ a\n\n]");
  EXPECT_EQ(marked(R"({"question": "q", "answer": "a", "solution": null})"), pair);
  EXPECT_EQ(marked(R"({"question": "q", "answer": 4, "solution": "2 + 2 = 4"})"),
            "User: q\n\nAssistant:[ 2 + 2 = 4\n\n]");
  EXPECT_EQ(marked(R"({"question": "q", "answer": 4})"), "User: q\n\nAssistant:[ 4\n\n]");
  EXPECT_EQ(marked(R"({"text": " one\n\ntwo"})"), "[ one\n\ntwo\n\n]");
}

TEST(RecognisedRows, SayWhyTheyAreDropped) {
  EXPECT_EQ(marked("\"a\""), "dropped: not_an_object");
  EXPECT_EQ(marked("{\"text\": \"a\""), "dropped: not_an_object");
  EXPECT_EQ(marked("{\"text\": \"\xff\"}"), "dropped: not_utf8");
  EXPECT_EQ(marked(R"({"title": "a"})"), "dropped: unknown_columns");
  EXPECT_EQ(marked(R"({"text": 3})"), "dropped: not_text");
  EXPECT_EQ(marked(R"({"text": " \n"})"), "dropped: empty");
  EXPECT_EQ(marked(R"({"messages": "hello"})"), "dropped: not_text");
  EXPECT_EQ(marked(R"({"messages": ["hello"]})"), "dropped: not_text");
  EXPECT_EQ(marked(R"({"messages": [{"role": "user", "content": ["parts"]}]})"),
            "dropped: not_text");
  EXPECT_EQ(marked(R"({"messages": [{"role": "tool", "content": "x"}]})"), "dropped: unknown_role");
  EXPECT_EQ(marked(R"({"messages": [{"role": "user", "content": "x"}]})"), "dropped: no_answer");
  EXPECT_EQ(marked(R"({"messages": []})"), "dropped: no_answer");
  EXPECT_EQ(marked(R"({"prompt": "", "response": "a"})"), "dropped: empty");
  EXPECT_EQ(marked(R"({"prompt": "q", "response": " "})"), "dropped: empty");
  EXPECT_EQ(marked(std::string(size_t{65} << 20, ' ')), "dropped: too_large");
  EXPECT_EQ(rendered("{\"a\": 1, \"b\": 2}").found,
            "expected columns of a chat or 'text', found 'a, b'");
  std::string deep = "{\"text\": ";
  deep.append(1'000'000, '[');
  EXPECT_EQ(marked(deep), "dropped: not_an_object");
}

}  // namespace
}  // namespace deltasane::corpus
