#include "cli/page/page.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "cli/page/page_parts.h"

namespace deltasane::cli {
namespace {

constexpr size_t most_points = 1500;  // of a curve: more than a screen has columns

std::string escaped_html(std::string_view text) {
  std::string out;
  for (const char c : text) switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += c;
    }
  return out;
}

// As JSON inside of a script: no text in it can end that.
std::string json_string(const std::string& text) {
  std::string json =
      nlohmann::json(text).dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
  for (size_t at = json.find('<'); at != json.npos; at = json.find('<', at))
    json.replace(at, 1, "\\u003c");
  return json;
}

std::string json_numbers(const std::vector<double>& numbers) {
  const size_t step = (numbers.size() + most_points - 1) / most_points;
  std::string out = "[";
  for (size_t i = 0; i < numbers.size(); ++i) {
    if (i % step != 0 && i + 1 != numbers.size()) continue;
    if (out.size() > 1) out += ',';
    out += std::isfinite(numbers[i]) ? fmt::format("{:.6g}", numbers[i]) : "null";
  }
  return out + "]";
}

std::string json_chart(const PageChart& figure) {
  const plot::Chart& chart = figure.chart;
  std::string out = fmt::format(
      "{{\"title\":{},\"x\":{},\"y\":{},\"log\":{},\"points\":{},\"high\":{},\"shown\":{},"
      "\"mark\":{},\"marks\":{},\"curves\":[",
      json_string(chart.title), json_string(chart.x_label), json_string(chart.y_label), chart.log_y,
      chart.points, chart.y_high, std::min(figure.shown, chart.curves.size()),
      json_string(chart.mark_label), json_numbers(chart.marks));
  for (size_t i = 0; i < chart.curves.size(); ++i)
    out += fmt::format("{}{{\"name\":{},\"x\":{},\"y\":{}}}", i > 0 ? "," : "",
                       json_string(chart.curves[i].label), json_numbers(chart.curves[i].x),
                       json_numbers(chart.curves[i].y));
  return out + "]}";
}

// The drawing alone: a page has one XML declaration at most, and ids must not meet.
std::string inline_svg(std::string svg, size_t number) {
  svg.erase(0, svg.find("<svg"));
  const std::string prefix = fmt::format("f{}-", number);
  for (const std::string_view mark : {"id='", "id=\"", "href='#", "href=\"#", "url(#"})
    for (size_t at = svg.find(mark); at != svg.npos; at = svg.find(mark, at + mark.size()))
      svg.insert(at + mark.size(), prefix);
  return svg;
}

}  // namespace

void Page::add(const PageTable& table) {
  body_ += "<div class=wide><table><thead><tr>";
  // On a narrow screen a row is a list, each cell with the title of its column.
  const auto cell = [&](const char* kind, size_t column, const std::string& text) {
    body_ += fmt::format("<{}{} data-title=\"{}\">{}</{}>", kind,
                         table.columns[column].is_text ? " class=text" : "",
                         escaped_html(table.columns[column].title), escaped_html(text),
                         std::string_view(kind).substr(0, 2));
  };
  for (size_t i = 0; i < table.columns.size(); ++i) cell("th scope=col", i, table.columns[i].title);
  body_ += "</tr></thead><tbody>\n";
  for (const std::vector<std::string>& row : table.rows) {
    body_ += "<tr>";
    for (size_t i = 0; i < row.size(); ++i) cell("td", i, row[i]);
    body_ += "</tr>\n";
  }
  body_ += "</tbody></table></div>\n";
}

void Page::add(const PageChart& chart) {
  body_ += fmt::format(
      "<figure class=chart id=chart{}><h2>{}</h2><div class=plot></div><figcaption>{}</figcaption>"
      "</figure>\n",
      charts_, escaped_html(chart.chart.title), escaped_html(chart.caption));
  data_ += (charts_ > 0 ? ",\n" : "") + json_chart(chart);
  ++charts_;
}

void Page::add_text(std::string_view text) {
  body_ += fmt::format("<p>{}</p>\n", escaped_html(text));
}

void Page::add_drawing(const std::string& svg, std::string_view title, std::string_view caption) {
  body_ += fmt::format(
      "<figure><h2>{0}</h2><div class=drawing role=img aria-label=\"{0}\">{1}</div>"
      "<figcaption>{2}</figcaption></figure>\n",
      escaped_html(title), inline_svg(svg, ++drawings_), escaped_html(caption));
}

std::string Page::html() const {
  return fmt::format(
      "<!DOCTYPE html>\n<html lang=en><head><meta charset=utf-8>"
      "<meta name=viewport content='width=device-width, initial-scale=1'>"
      "<meta name=color-scheme content='light dark'><title>{0}</title>\n<style>{1}</style></head>\n"
      "<body><h1>{0}</h1>\n{2}<noscript><p>The charts are drawn by a script in this page, which is "
      "switched off.</p></noscript>\n<script type=application/json id=data>[{3}]</script>\n"
      "<script>{4}</script></body></html>\n",
      escaped_html(title_), page_style, body_, data_, page_script);
}

}  // namespace deltasane::cli
