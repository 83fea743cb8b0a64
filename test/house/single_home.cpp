#include "house/single_home.h"

#include <algorithm>
#include <span>

#include "base/cat.h"
#include "house/text.h"

namespace deltasane::house {
namespace {

// A line of code matches a pattern without its blanks and without "std::"; * stands for anything.
using Patterns = std::span<const std::string_view>;

constexpr std::string_view softplus_scope[] = {"src/*"};
// Of tau, and of the decays of gated rules.
constexpr std::string_view softplus_home[] = {"src/kernel/sane/*", "src/kernel/decay/*"};
constexpr std::string_view softplus_patterns[] = {
    "*softplus*",      "*log1p(exp(*",      "*log1pf(expf(*", "*log1pf(__expf(*",
    "*log(1+exp(*",    "*log(1.0+exp(*",    "*logf(1+expf(*", "*logf(1.0f+expf(*",
    "*__logf(1+*exp*", "*__logf(1.0f+*exp*"};

constexpr std::string_view decode_scope[] = {"src/train/*", "src/infer/*", "src/probe/*",
                                             "src/eval/*",  "src/serve/*", "src/cli/*"};
constexpr std::string_view decode_home[] = {"src/infer/engine/*"};
constexpr std::string_view decode_patterns[] = {
    // a sampler's next token
    "*sampler.next(*", "*sampler_.next(*", "*sampler->next(*", "*next_if_finite(*",
    "*sampler.accept(*", "*sampler_.accept(*", "*sampler->accept(*", "*sampler.sample(*",
    "*sampler_.sample(*", "*sampler->sample(*",
    // a model's sampled token
    "*Want::sample*", "*step_and_sample(*", "*step_and_sample(*", "*read_and_pick(*",
    "*read_and_sample(*",
    // greedy: the index of the largest logit
    "*max_element(*logits*)-*logits*", "*argmax(*logits*"};

bool matches_any(std::string_view text, Patterns patterns) {
  return std::ranges::any_of(patterns,
                             [&](std::string_view pattern) { return matches(text, pattern); });
}

std::string compact(std::string_view code) {
  std::string text;
  for (const char c : code)
    if (c != ' ' && c != '\t') text += c;
  for (size_t at; (at = text.find("std::ranges::")) != text.npos;) text.erase(at, 13);
  for (size_t at; (at = text.find("std::")) != text.npos;) text.erase(at, 5);
  return text;
}

Findings check(const std::vector<Source>& sources, Patterns scope, Patterns home, Patterns patterns,
               std::string_view what) {
  Findings findings;
  for (const Source& source : sources) {
    if (!matches_any(source.path, scope) || matches_any(source.path, home) ||
        is_test_or_fixture(source.path))
      continue;
    const std::string code = views_of(source.text).code;
    int number = 0;
    for (const std::string_view line : lines_of(code)) {
      ++number;
      if (matches_any(compact(line), patterns))
        findings.push_back({cat(source.path, ":", number), std::string(what)});
    }
  }
  return findings;
}

}  // namespace

Findings check_softplus(const std::vector<Source>& sources) {
  return check(sources, softplus_scope, softplus_home, softplus_patterns,
               "computes softplus: call src/kernel/sane");
}

Findings check_decode_loops(const std::vector<Source>& sources) {
  return check(sources, decode_scope, decode_home, decode_patterns,
               "samples a next token from logits: use src/infer/engine");
}

}  // namespace deltasane::house
