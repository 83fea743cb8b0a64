#include "text/text_stop.h"

#include <gtest/gtest.h>

#include "base/random.h"
#include "support/errors.h"

namespace deltasane {
namespace {

using Stops = std::vector<std::string>;

TEST(TextStop, WithoutStopsTextPasses) {
  TextStop stop({});
  EXPECT_EQ(stop.feed("abc"), "abc");
  EXPECT_EQ(stop.finish(), "");
  EXPECT_FALSE(stop.stopped());
  EXPECT_EQ(stop.stop(), "");
}

TEST(TextStop, HoldsBackWhatMayBecomeAStop) {
  TextStop stop({"\n\nUser:"});
  EXPECT_EQ(stop.feed("hi\n"), "hi");
  EXPECT_EQ(stop.feed("\n"), "");
  EXPECT_EQ(stop.feed(""), "");
  EXPECT_EQ(stop.feed("\nUs"), "\n");
  EXPECT_EQ(stop.feed("er"), "");
  EXPECT_EQ(stop.feed(": more"), "");
  EXPECT_TRUE(stop.stopped());
  EXPECT_EQ(stop.stop(), "\n\nUser:");
  EXPECT_EQ(stop.feed("more"), "");
  EXPECT_EQ(stop.finish(), "");
}

TEST(TextStop, EmitsHeldTextWhenTheTextEnds) {
  TextStop stop({"END"});
  EXPECT_EQ(stop.feed("the EN"), "the ");
  EXPECT_EQ(stop.finish(), "EN");
  EXPECT_EQ(stop.feed("D"), "D");  // a new text after finish()
}

TEST(TextStop, TheFirstToEndWinsThenTheLongest) {
  TextStop first_to_end({"abcd", "bc"});
  EXPECT_EQ(first_to_end.feed("xabcd"), "xa");
  EXPECT_EQ(first_to_end.stop(), "bc");
  TextStop longest({"c", "abc", "bc"});
  EXPECT_EQ(longest.feed("xabc"), "x");
  EXPECT_EQ(longest.stop(), "abc");
}

TEST(TextStop, CopiesAreIndependent) {
  TextStop stop({"ab"});
  EXPECT_EQ(stop.feed("a"), "");
  TextStop copy = stop;
  EXPECT_EQ(stop.feed("b"), "");
  EXPECT_FALSE(copy.stopped());
  EXPECT_EQ(copy.feed("c"), "ac");
  stop.restart();
  EXPECT_FALSE(stop.stopped());
  EXPECT_EQ(stop.feed("b"), "b");
}

TEST(TextStop, RejectsAnEmptyStop) {
  EXPECT_FAULT(TextStop(Stops{"a", ""}), Fault::usage, "stop string: expected at least one byte");
}

// The definition: the shortest prefix of the text that ends in a stop string.
struct Expected {
  std::string before, stop;
};
Expected reference(const std::string& text, const Stops& stops) {
  for (size_t end = 0; end <= text.size(); ++end) {
    const std::string prefix = text.substr(0, end);
    std::string found;
    for (const std::string& stop : stops)
      if (prefix.ends_with(stop) && stop.size() > found.size()) found = stop;
    if (!found.empty()) return {prefix.substr(0, end - found.size()), found};
  }
  return {text, ""};
}

TEST(TextStop, AgreesWithTheDefinitionForAnyChunking) {
  Random random(5);
  const auto word = [&](size_t least, size_t most) {
    std::string text(least + random.below(most - least + 1), 'a');
    for (char& c : text) c = "ab"[random.below(2)];
    return text;
  };
  for (int round = 0; round < 5000; ++round) {
    Stops stops;
    for (uint64_t i = random.below(4); i > 0; --i) stops.push_back(word(1, 7));
    const std::string text = word(0, 40);
    TextStop stop(stops);
    std::string emitted;
    for (size_t at = 0; at < text.size();) {
      const size_t size = 1 + random.below(6);
      emitted += stop.feed(std::string_view(text).substr(at, size));
      at += size;
      // Nothing is held back needlessly: some stop string begins with it.
      if (!stop.stopped() && at < text.size()) {
        const std::string held = text.substr(emitted.size(), at - emitted.size());
        bool needed = held.empty();
        for (const std::string& s : stops) needed |= s.starts_with(held);
        ASSERT_TRUE(needed) << text << " held " << held;
      }
    }
    emitted += stop.finish();
    const Expected expected = reference(text, stops);
    ASSERT_EQ(emitted, expected.before) << text;
    ASSERT_EQ(stop.stop(), expected.stop) << text;
  }
}

}  // namespace
}  // namespace deltasane
