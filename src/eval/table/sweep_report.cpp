#include "eval/table/sweep_report.h"

#include <fmt/format.h>
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json/array_at.h"
#include "eval/run/csv_cells.h"

namespace deltasane::eval {
namespace {

// The two halves of the table with their names.
struct Half {
  std::string title;
  const std::vector<SweepRow>& rows;
  std::string prefix;  // as in CSV
};

std::vector<Half> halves_of(const SweepTable& table) {
  std::vector<Half> halves{{"No prefix", table.plain, "0"}};
  if (!table.after.empty())
    halves.push_back({"After " + (table.prefix.empty() ? "the prefix" : table.prefix), table.after,
                      table.prefix.empty() ? "prefix" : table.prefix});
  return halves;
}

// Against the baseline of the same half.
std::optional<PairedT> against_baseline(const std::vector<SweepRow>& rows, const SweepRow& row) {
  if (!row.alpha || rows[0].alpha) return std::nullopt;
  return test_rows(rows[0], row);
}

bool has_baseline(const Half& half) { return !half.rows[0].alpha && half.rows[0].has_scores(); }

std::string joined(const std::vector<std::string>& cells, const char* between) {
  std::string text;
  for (const std::string& cell : cells) text += (text.empty() ? "" : between) + cell;
  return text;
}

std::string markdown_line(const std::vector<std::string>& cells) {
  return "| " + joined(cells, " | ") + " |\n";
}

std::string scores_markdown(const SweepTable& table, const Half& half) {
  std::vector<std::string> head{half.title}, rule{"---"};
  for (const std::string& name : table.benchmarks) head.push_back(name), rule.push_back("--:");
  head.push_back("**average**"), rule.push_back("--:");
  if (has_baseline(half)) {
    head.insert(head.end(), {"difference", "p"});
    rule.insert(rule.end(), {"--:", "--:"});
  }
  std::string text = markdown_line(head) + markdown_line(rule);
  for (const SweepRow& row : half.rows) {
    std::vector<std::string> cells{row.name()};
    if (row.has_scores()) {
      for (const double score : row.scores) cells.push_back(fmt::format("{:.2f}", score));
      cells.push_back(fmt::format("**{:.2f}**", row.average()));
    } else {
      cells.resize(table.benchmarks.size() + 1, "-");
      cells.push_back(row.overflowed ? "overflow" : "-");
    }
    if (has_baseline(half)) {
      const std::optional<PairedT> test = against_baseline(half.rows, row);
      cells.push_back(test ? fmt::format("{:+.2f}", test->difference) : "-");
      cells.push_back(test ? p_text(test->p) : "-");
    }
    text += markdown_line(cells);
  }
  return text;
}

std::vector<const SweepRow*> rows_with_scores(const Half& half) {
  std::vector<const SweepRow*> rows;
  for (const SweepRow& row : half.rows)
    if (row.has_scores()) rows.push_back(&row);
  return rows;
}

// Below the diagonal the difference of averages, above it p.
std::string matrix_markdown(const Half& half) {
  const std::vector<const SweepRow*> rows = rows_with_scores(half);
  std::vector<std::string> head{half.title}, rule{"---"};
  for (const SweepRow* const row : rows) head.push_back(row->name()), rule.push_back("--:");
  std::string text = markdown_line(head) + markdown_line(rule);
  for (size_t i = 0; i < rows.size(); ++i) {
    std::vector<std::string> cells{rows[i]->name()};
    for (size_t j = 0; j < rows.size(); ++j)
      cells.push_back(i == j  ? ""
                      : j > i ? p_text(test_rows(*rows[i], *rows[j])->p)
                              : fmt::format("{:+.2f}", rows[i]->average() - rows[j]->average()));
    text += markdown_line(cells);
  }
  return text;
}

std::string latex_text(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '\\') {
      out += "\\textbackslash{}";
      continue;
    }
    if (std::string_view("&%$#_{}").find(c) != std::string_view::npos) out += '\\';
    out += c == '~' || c == '^' ? ' ' : c;
  }
  return out;
}

std::string latex_row(const SweepTable& table, const Half& half, const SweepRow& row) {
  const std::string name = row.alpha ? fmt::format("$\\alpha={:g}$", *row.alpha) : "baseline";
  if (!row.has_scores())
    return fmt::format("{} & \\multicolumn{{{}}}{{c}}{{{}}} \\\\\n", name,
                       table.benchmarks.size() + 2, row.overflowed ? "overflow" : "--");
  std::vector<std::string> cells{name};
  for (const double score : row.scores) cells.push_back(fmt::format("{:.2f}", score));
  cells.push_back(fmt::format("{:.2f}", row.average()));
  const std::optional<PairedT> test = against_baseline(half.rows, row);
  cells.push_back(!test ? "--" : test->p < 0.001 ? "$<$0.001" : fmt::format("{:.3f}", test->p));
  return joined(cells, " & ") + " \\\\\n";
}

}  // namespace

std::string to_markdown(const SweepTable& table, const SweepVerdict& verdict) {
  const std::vector<Half> halves = halves_of(table);
  std::string text = "Majority vote, percent.\n";
  for (const Half& half : halves) text += "\n" + scores_markdown(table, half);
  if (table.benchmarks.size() > 1) {
    text +=
        "\np: two-sided paired t-test over the benchmarks, against the baseline above, and between "
        "any "
        "two models below (above the diagonal p, below it the difference of averages).\n";
    for (const Half& half : halves) text += "\n" + matrix_markdown(half);
  }
  text += "\n";
  for (const std::string& sentence : sentences(table, verdict)) text += "- " + sentence + "\n";
  return text;
}

std::string to_csv(const SweepTable& table) {
  std::vector<std::string> head{"prefix", "model", "alpha"};
  for (const std::string& name : table.benchmarks) head.push_back(csv_cell(name));
  head.insert(head.end(), {"average", "p"});
  std::string text = joined(head, ",") + "\n";
  for (const Half& half : halves_of(table))
    for (const SweepRow& row : half.rows) {
      std::string line = csv_cell(half.prefix) + "," + row.name() + "," +
                         (row.alpha ? fmt::format("{:g}", *row.alpha) : "");
      for (size_t b = 0; b < table.benchmarks.size(); ++b)
        line += row.has_scores() ? fmt::format(",{}", row.scores[b])
                                 : std::string(row.overflowed ? ",overflow" : ",");
      line += row.has_scores() ? fmt::format(",{}", row.average()) : std::string(",");
      const std::optional<PairedT> test = against_baseline(half.rows, row);
      text += line + (test ? fmt::format(",{}", test->p) : std::string(",")) + "\n";
    }
  return text;
}

std::string to_json(const SweepTable& table, const SweepVerdict& verdict) {
  using Json = nlohmann::ordered_json;
  const auto or_null = [](const std::optional<double>& number) {
    return number && std::isfinite(*number) ? Json(*number) : Json();
  };
  Json json{{"benchmarks", table.benchmarks}, {"level", verdict.level}, {"models", Json::array()}};
  for (const Half& half : halves_of(table))
    for (const SweepRow& row : half.rows) {
      Json one{{"prefix", half.prefix}, {"name", row.name()}, {"alpha", or_null(row.alpha)}};
      one["scores"] = row.has_scores() ? Json(row.scores) : Json();
      one["average"] = row.has_scores() ? Json(row.average()) : Json();
      one["overflowed"] = row.overflowed;
      const std::optional<PairedT> test = against_baseline(half.rows, row);
      one["p"] = test ? or_null(test->p) : Json();
      array_at(json, "models").push_back(std::move(one));
    }
  json["harmless"] = verdict.harmless, json["collapsed"] = verdict.collapsed;
  json["safe"] = verdict.safe, json["front"] = verdict.front;
  json["choice"] = or_null(verdict.choice);
  json["sentences"] = sentences(table, verdict);
  return json.dump(2) + "\n";
}

std::string p_values_csv(const SweepTable& table) {
  std::string text = "prefix,first,second,difference,t,p\n";
  for (const Half& half : halves_of(table)) {
    const std::vector<const SweepRow*> rows = rows_with_scores(half);
    for (size_t i = 0; i < rows.size(); ++i)
      for (size_t j = i + 1; j < rows.size(); ++j)
        if (const std::optional<PairedT> test = test_rows(*rows[i], *rows[j]))
          text += fmt::format("{},{},{},{},{},{}\n", csv_cell(half.prefix), rows[i]->name(),
                              rows[j]->name(), test->difference, test->t, test->p);
  }
  return text;
}

std::string to_latex(const SweepTable& table) {
  const size_t columns = table.benchmarks.size() + 3;
  std::string text = fmt::format(
      "% needs \\usepackage{{booktabs}}\n\\begin{{table*}}\n\\centering\\small\n"
      "\\setlength{{\\tabcolsep}}{{3pt}}\n\\begin{{tabular}}{{l*{{{}}}{{r}}}}\n\\toprule\nModel",
      columns - 1);
  for (const std::string& name : table.benchmarks) text += " & " + latex_text(name);
  text += " & Avg & $p$ \\\\\n";
  for (const Half& half : halves_of(table)) {
    text += fmt::format("\\midrule\n\\multicolumn{{{}}}{{l}}{{\\emph{{{}}}}} \\\\\n", columns,
                        latex_text(half.title));
    for (const SweepRow& row : half.rows) text += latex_row(table, half, row);
  }
  return text +
         "\\bottomrule\n\\end{tabular}\n"
         "\\caption{Majority vote in percent. $p$: two-sided paired $t$-test over the benchmarks "
         "against the baseline.}\n\\end{table*}\n";
}

plot::Chart accuracy_chart(const SweepTable& table, const SweepVerdict& verdict) {
  plot::Chart chart{.title = "Average accuracy against alpha",
                    .x_label = "alpha",
                    .y_label = "average accuracy, %"};
  chart.points = true;
  chart.y_low = 0;
  double first = 1e300, last = -1e300;
  std::vector<plot::Curve> baselines;
  for (const Half& half : halves_of(table)) {
    plot::Curve curve{half.title, {}, {}};
    curve.colour = int(chart.curves.size());
    for (const SweepRow& row : half.rows) {
      if (!row.has_scores()) continue;
      chart.y_high = std::max(chart.y_high, 1.1 * row.average());
      if (!row.alpha) {
        baselines.push_back({half.title + ", baseline", {}, {row.average(), row.average()}});
        baselines.back().colour = curve.colour;
        baselines.back().dashed = true;
        continue;
      }
      curve.x.push_back(*row.alpha), curve.y.push_back(row.average());
      first = std::min(first, *row.alpha), last = std::max(last, *row.alpha);
    }
    chart.curves.push_back(std::move(curve));
  }
  if (chart.curves[0].x.empty())
    fail(Fault::usage, "figure: expected models with SANE, found none with an alpha");
  chart.x_low = first - 0.5, chart.x_high = last + 0.5;
  for (plot::Curve& baseline : baselines) {
    baseline.x = {chart.x_low, chart.x_high};
    chart.curves.push_back(std::move(baseline));
  }
  // Up to the middle between an alpha and its neighbours.
  const std::vector<double> alphas = chart.curves[0].x;
  for (size_t i = 0; i < alphas.size(); ++i) {
    if (std::ranges::find(verdict.collapsed, alphas[i]) == verdict.collapsed.end()) continue;
    const double from = i == 0 ? chart.x_low : (alphas[i - 1] + alphas[i]) / 2;
    const double to = i + 1 == alphas.size() ? chart.x_high : (alphas[i] + alphas[i + 1]) / 2;
    if (!chart.shades.empty() && chart.shades.back().second == from)
      chart.shades.back().second = to;
    else
      chart.shades.push_back({from, to});
  }
  chart.shade_label = "collapse after the prefix";
  return chart;
}

}  // namespace deltasane::eval
