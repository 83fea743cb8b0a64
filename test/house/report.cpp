#include "house/report.h"

#include "base/cat.h"
#include "house/text.h"

namespace deltasane::house {

namespace {

std::string unescaped(std::string_view text) {
  constexpr std::pair<std::string_view, char> entities[]{
      {"&lt;", '<'}, {"&gt;", '>'}, {"&quot;", '"'}, {"&apos;", '\''}, {"&amp;", '&'}};
  std::string plain;
  while (!text.empty()) {
    char c = text[0];
    size_t length = 1;
    for (const auto& [entity, meaning] : entities)
      if (text.starts_with(entity)) c = meaning, length = entity.size();
    plain += c;
    text.remove_prefix(length);
  }
  return plain;
}

// What stands between `open` and `close`, or nothing.
std::string_view between(std::string_view text, std::string_view open, std::string_view close) {
  const size_t at = text.find(open);
  if (at == text.npos) return {};
  text.remove_prefix(at + open.size());
  return text.substr(0, text.find(close));
}

// GoogleTest prints "file:line: Skipped", then the reason, then an empty line or its mark.
std::string reason_in(std::string_view output) {
  std::string reason;
  bool inside = false;
  for (const std::string_view line : lines_of(output)) {
    if (inside && (trimmed(line).empty() || line.starts_with("[  SKIPPED ]"))) break;
    if (inside) reason += cat(reason.empty() ? "" : " ", trimmed(line));
    if (line.ends_with(": Skipped")) inside = true;
  }
  return reason;
}

}  // namespace

Report read_report(std::string_view junit) {
  Report report;
  while (true) {
    const std::string_view test = between(junit, "<testcase ", "</testcase>");
    if (test.empty()) return report;
    junit = junit.substr(static_cast<size_t>(test.data() + test.size() - junit.data()));
    ++report.tests;
    const std::string output = unescaped(between(test, "<system-out>", "</system-out>"));
    for (const std::string_view line : lines_of(output))
      if (line.starts_with("note: ")) report.notes.emplace_back(line.substr(6));
    const bool disabled = between(test, "status=\"", "\"") == "disabled";
    if (test.find("<skipped") == test.npos && !disabled) continue;
    std::string reason = disabled ? "disabled" : reason_in(output);
    if (reason.empty()) reason = "no reason given";
    report.skips.push_back({unescaped(between(test, "name=\"", "\"")), std::move(reason)});
  }
}

bool is_expected(const Skip& skip, std::string_view expected_skips) {
  for (std::string_view line : lines_of(expected_skips)) {
    line = trimmed(line);
    const size_t blank = line.find(' ');
    if (line.empty() || line[0] == '#' || blank == line.npos) continue;
    if (matches(skip.name, line.substr(0, blank)) &&
        matches(skip.reason, trimmed(line.substr(blank))))
      return true;
  }
  return false;
}

}  // namespace deltasane::house
