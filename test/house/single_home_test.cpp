#include "house/single_home.h"

#include <gtest/gtest.h>

#include "house/baseline_rules.h"

namespace deltasane::house {
namespace {

TEST(SingleHome, OfSoftplusHoldsInThisTree) {
  const Findings findings = check_rule("softplus.txt", DELTASANE_SOURCE);
  EXPECT_TRUE(findings.empty()) << to_string(findings);
}

TEST(SingleHome, OfDecodeLoopsHoldsInThisTree) {
  const Findings findings = check_rule("decode_loops.txt", DELTASANE_SOURCE);
  EXPECT_TRUE(findings.empty()) << to_string(findings);
}

size_t softplus(const std::string& path, const std::string& text) {
  return check_softplus({{path, text}}).size();
}

TEST(SingleHome, OfSoftplusIsTheOperator) {
  for (const char* text :
       {"tau = alpha * softplus(x) + 1;", "y = std::log1p(std::exp(-std::abs(x)));",
        "y = log1pf( expf(x) );", "y = std::log(1 + std::exp(x));", "y = __logf(1 + __expf(x));"})
    EXPECT_EQ(softplus("src/model/x.cpp", text), 1u) << text;
  EXPECT_EQ(softplus("src/kernel/norm/cuda.cu", "a = log1p(exp(x));"), 1u);
  EXPECT_EQ(softplus("src/kernel/sane/reference.cpp", "a = log1p(exp(x));"), 0u);
  EXPECT_EQ(softplus("src/model/x_test.cpp", "a = log1p(exp(x));"), 0u);
  EXPECT_EQ(softplus("src/eval/x.cpp", "// alpha softplus(x)\na = std::log1p(-x); b = log(x);"),
            0u);
}

size_t decode_loops(const std::string& path, const std::string& text) {
  return check_decode_loops({{path, text}}).size();
}

TEST(SingleHome, OfDecodeLoopsIsTheEngine) {
  for (const char* text :
       {"const int32_t token = sampler.next(session.logits());", "sampler_.next(logits, position);",
        "row.sampler->next_if_finite(logits, 3);", "one.sampler.sample(logits, position);",
        "request.want = Want::sample;", "model.step_and_sample(tokens, states, samples);",
        "return int32_t(std::ranges::max_element(logits) - logits.begin());",
        "return std::max_element(logits, logits + vocabulary) - logits;"})
    for (const char* path : {"src/cli/x.cpp", "src/eval/run/x.cpp", "src/train/x.cpp",
                             "src/infer/session.cpp", "src/serve/x.cpp"})
      EXPECT_EQ(decode_loops(path, text), 1u) << path << " " << text;
  EXPECT_EQ(decode_loops("src/infer/engine/x.cpp", "sampler.next(logits);"), 0u);
  EXPECT_EQ(decode_loops("src/model/x.cpp", "want = Want::sample;"), 0u);
  EXPECT_EQ(decode_loops("src/cli/x_test.cpp", "sampler.next(logits);"), 0u);
  EXPECT_EQ(decode_loops("src/eval/x.cpp",
                         "stream.next(); largest = *std::max_element(logits.begin(), logits.end());"
                         "\n// sampler.next(logits)"),
            0u);
}

}  // namespace
}  // namespace deltasane::house
