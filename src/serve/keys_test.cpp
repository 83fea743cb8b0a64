#include "serve/keys.h"

#include <gtest/gtest.h>

#include "serve/metrics.h"
#include "support/errors.h"
#include "support/scratch.h"

namespace deltasane::serve {
namespace {

TEST(Keys, LetInWhoHasOne) {
  const deltasane::test::Scratch scratch;
  const fs::path path = scratch.path() / "keys";
  replace_file(path, "# ours\nfirst-key-1\r\n\nsecond-key-2\n");
  Keys keys;
  EXPECT_EQ(keys.owner("whatever"), "");
  keys.add_file(path);
  const auto first = keys.owner("Bearer first-key-1"), second = keys.owner("Bearer second-key-2");
  ASSERT_TRUE(first && second);
  EXPECT_NE(*first, *second);
  EXPECT_EQ(first->find("first"), first->npos);
  for (const char* const bad : {"", "first-key-1", "Bearer ", "Bearer first-key-", "Bearer first-key-11",
                                "Basic first-key-1", "Bearer  first-key-1"})
    EXPECT_EQ(keys.owner(bad), std::nullopt) << bad;
  Keys again;
  again.add("first-key-1");
  EXPECT_EQ(again.owner("Bearer first-key-1"), first);
}

TEST(Keys, RefusesWhatIsNone) {
  const deltasane::test::Scratch scratch;
  Keys keys;
  EXPECT_THROW(keys.add("short"), Error);
  EXPECT_THROW(keys.add("with a space"), Error);
  EXPECT_THROW(keys.add(std::string(257, 'a')), Error);
  replace_file(scratch.path() / "empty", "# none\n");
  EXPECT_THROW(keys.add_file(scratch.path() / "empty"), Error);
  EXPECT_THROW(keys.add_file(scratch.path() / "absent"), Error);
}

TEST(Metrics, PrintsWhatPrometheusReads) {
  Metrics metrics;
  metrics.add("requests_total", 2, "reason=\"stop\"");
  metrics.add("requests_total", 1, "reason=\"stop\"");
  metrics.set("rows", 3);
  metrics.observe("step_seconds", 0.02);
  metrics.observe("step_seconds", 100);
  const std::string text = metrics.text();
  EXPECT_NE(text.find("deltasane_requests_total{reason=\"stop\"} 3\n"), text.npos);
  EXPECT_NE(text.find("# TYPE deltasane_rows gauge\ndeltasane_rows 3\n"), text.npos);
  EXPECT_NE(text.find("deltasane_step_seconds_bucket{le=\"0.01\"} 0\n"), text.npos);
  EXPECT_NE(text.find("deltasane_step_seconds_bucket{le=\"0.025\"} 1\n"), text.npos);
  EXPECT_NE(text.find("deltasane_step_seconds_bucket{le=\"+Inf\"} 2\n"), text.npos);
  EXPECT_NE(text.find("deltasane_step_seconds_count 2\n"), text.npos);
}

}  // namespace
}  // namespace deltasane::serve
