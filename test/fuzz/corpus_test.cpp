#include <gtest/gtest.h>

#include "base/timing.h"
#include "fuzz/corpus.h"
#include "support/fixture_bytes.h"

namespace deltasane::fuzz {
namespace {

class Corpus : public testing::TestWithParam<Target> {};

// A file whose name begins with "good" is one that the parser must take; all others it takes or
// refuses. Nothing crashes, and nothing takes long.
TEST_P(Corpus, EveryFileIsTakenOrRefused) {
  const std::vector<CorpusFile> files = corpus_of(GetParam());
  size_t good = 0;
  for (const CorpusFile& file : files) {
    const double begin = seconds_now();
    const bool taken = parse(GetParam(), test::Exact(file.bytes).span()).has_value();
    EXPECT_LT(seconds_now() - begin, 5.0) << file.name;
    if (!file.name.starts_with("good")) continue;
    EXPECT_TRUE(taken) << file.name;
    ++good;
  }
  EXPECT_GT(good, 0u) << "expected a file good* in test/fuzz/corpus/" << GetParam().name;
}

INSTANTIATE_TEST_SUITE_P(Parsers, Corpus, testing::ValuesIn(targets()), test_name);

}  // namespace
}  // namespace deltasane::fuzz
