#include <fmt/format.h>

#include <algorithm>

#include "cli/stream/report.h"

namespace deltasane::cli {
namespace {

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text)
    c == '&' ? out += "&amp;" : c == '<' ? out += "&lt;" : c == '>' ? out += "&gt;" : out += c;
  return out;
}

constexpr const char* style =
    "body{font:16px/1.5 system-ui,sans-serif;max-width:1400px;margin:2em auto;padding:0 1em;"
    "color:#222}table{border-collapse:collapse;margin:1em 0}td,th{padding:.25em .8em;"
    "text-align:right;border-bottom:1px solid #ddd}td:first-child,th:first-child{text-align:left}"
    "figure{margin:2em 0}figcaption{color:#555}svg{max-width:100%;height:auto}"
    ".left{text-align:left}image{image-rendering:pixelated}";

// The drawing alone: a page has one XML declaration at most, and ids must not meet.
std::string inline_svg(const fs::path& path, size_t number) {
  std::string svg = read_file(path);
  svg.erase(0, svg.find("<svg"));
  const std::string prefix = fmt::format("f{}-", number);
  for (const std::string_view mark : {"id='", "id=\"", "href='#", "href=\"#", "url(#"})
    for (size_t at = svg.find(mark); at != svg.npos; at = svg.find(mark, at + mark.size()))
      svg.insert(at + mark.size(), prefix);
  return svg;
}

std::string runs_table(const std::vector<ReportRun>& runs) {
  std::string html =
      "<table><tr><th>run</th><th class=left>model</th><th class=left>SANE</th><th>tokens</th>"
      "<th>perplexity</th><th>norm, first</th><th>norm, last</th><th>max |S|, last</th>"
      "<th>accuracy, first</th><th>last</th><th class=left>outcome</th></tr>\n";
  for (const ReportRun& run : runs) {
    const auto last = size_t(run.segments.rows) - 1;
    const auto reals = [&](const char* column, size_t row) {
      return run.segments.reals(column)[row];
    };
    std::string first_accuracy = "-", last_accuracy = "-", outcome = "finite";
    if (run.probes.rows > 0) {
      first_accuracy = fmt::format("{:.2f}", run.probes.reals("accuracy").front());
      last_accuracy = fmt::format("{:.2f}", run.probes.reals("accuracy").back());
    }
    for (size_t i = 0; i <= last; ++i)
      if (run.segments.integers("overflow")[i])
        outcome = fmt::format(
            "overflow after {} tokens, layer {}, head {}", run.segments.integers("position")[i],
            run.segments.integers("overflow_layer")[i], run.segments.integers("overflow_head")[i]);
    html += fmt::format(
        "<tr><td>{}</td><td class=left>{}</td><td class=left>{}</td><td>{}</td><td>{:.4g}</td>"
        "<td>{:.3g}</td><td>{:.3g}</td><td>{:.3g}</td><td>{}</td><td>{}</td>"
        "<td class=left>{}</td></tr>\n",
        escaped(run.name), escaped(run.segments.setting("model")),
        escaped(run.segments.setting("sane")), run.segments.integers("position")[last],
        reals("cumulative_perplexity", last), reals("norm", 0), reals("norm", last),
        reals("largest", last), first_accuracy, last_accuracy, outcome);
  }
  return html + "</table>\n";
}

}  // namespace

std::string page_of(const std::string& title, const std::vector<ReportRun>& runs,
                    const std::vector<ReportFigure>& figures, const fs::path& folder) {
  std::string html = fmt::format(
      "<!DOCTYPE html>\n<html lang=en><head><meta charset=utf-8>"
      "<meta name=viewport content='width=device-width'><title>{0}</title>"
      "<style>{1}</style></head>\n<body><h1>{0}</h1>\n",
      escaped(title), style);
  html += runs_table(runs);
  for (const ReportRun& run : runs)
    html += fmt::format("<p>{} reads {}.</p>\n", escaped(run.name),
                        escaped(run.segments.setting("corpus")));
  for (size_t i = 0; i < figures.size(); ++i)
    html += fmt::format("<figure>{}<figcaption>{}</figcaption></figure>\n",
                        inline_svg(folder / (figures[i].name + ".svg"), i + 1),
                        escaped(figures[i].caption));
  return html + "</body></html>\n";
}

}  // namespace deltasane::cli
