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

// The text between `open` and `close`, or empty.
std::string_view between(std::string_view text, std::string_view open, std::string_view close) {
  const size_t at = text.find(open);
  if (at == text.npos) return {};
  text.remove_prefix(at + open.size());
  return text.substr(0, text.find(close));
}

// Parses the output of GoogleTest. It prints "[ RUN      ] name" for each test, and for a skip
// "file:line: Skipped", the reason, and "[  SKIPPED ]".
void read_output(std::string_view output, Report& report) {
  std::string name;
  bool skipped = false;
  for (const std::string_view line : lines_of(output)) {
    if (line.starts_with("[ RUN      ] ")) {
      name = trimmed(line.substr(13));
      skipped = false;
    } else if (line.starts_with("[  SKIPPED ]")) {
      skipped = false;
    } else if (line.ends_with(": Skipped")) {
      skipped = true;
      report.skips.push_back({name, ""});
    } else if (line.starts_with("note: ")) {
      report.notes.emplace_back(line.substr(6));
    } else if (skipped && !trimmed(line).empty()) {
      std::string& reason = report.skips.back().reason;
      reason += cat(reason.empty() ? "" : " ", trimmed(line));
    }
  }
}

}  // namespace

Report read_report(std::string_view junit) {
  Report report;
  while (true) {
    const std::string_view test = between(junit, "<testcase ", "</testcase>");
    if (test.empty()) return report;
    junit = junit.substr(static_cast<size_t>(test.data() + test.size() - junit.data()));
    ++report.tests;
    const size_t before = report.skips.size();
    read_output(unescaped(between(test, "<system-out>", "</system-out>")), report);
    const bool disabled = between(test, "status=\"", "\"") == "disabled";
    const bool skipped = disabled || test.find("<skipped") != test.npos;
    if (skipped && report.skips.size() == before)  // not by GoogleTest
      report.skips.push_back(
          {unescaped(between(test, "name=\"", "\"")), disabled ? "disabled" : ""});
    for (Skip& skip : report.skips)
      if (skip.reason.empty()) skip.reason = "no reason given";
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
