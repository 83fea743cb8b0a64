#include "cli/publish/model_card.h"

#include <fmt/format.h>
#include <sstream>

#include "base/printable.h"
#include "text/utf8.h"

namespace deltasane::cli {
namespace {

double millions_of_parameters(const ModelCheckpoint& checkpoint) {
  int64_t sum = 0;
  for (const std::string& name : checkpoint.names()) sum += checkpoint.shape(name).elements();
  return double(sum) / 1e6;
}

std::string front_matter(const ModelCard& card, const ModelDescription& model, bool sane) {
  std::string text = "---\n";
  if (!card.license.empty()) text += cat("license: ", card.license, "\n");
  if (!card.base_model.empty()) text += cat("base_model: ", card.base_model, "\n");
  return text + cat("pipeline_tag: text-generation\ntags:\n- ", model.architecture, "\n",
                    sane ? "- sane\n" : "", "---\n");
}

std::string about_sane(const SaneSettings& sane) {
  return fmt::format(
      "\n## SANE\n\n"
      "The model was trained with SANE (State Anomaly Neutralization, arXiv 2608.22354): every {} "
      "tokens each head's state S becomes tau tanh(S / tau), with tau = alpha softplus(x W) + 1 and "
      "alpha = {}. It is part of the model: two tensors of each layer, whose names end in `x_tau` "
      "and `w_tau`, and the two settings alpha and chunk, in the same files.\n\n"
      "A program that does not know SANE leaves these tensors out and runs the model as its "
      "baseline, without bounds on its states. A loader that is strict about unknown tensors must "
      "be told to ignore them (PyTorch: `strict=False`).\n",
      sane.chunk, sane.alpha);
}

// The cells of a line of CSV; a cell in quotes may hold commas.
std::string markdown_row(const std::string& line) {
  std::string row = "| ";
  bool quoted = false;
  for (const char c : line) {
    if (c == '"')
      quoted = !quoted;
    else if (c == ',' && !quoted)
      row += " | ";
    else if (c != '\r')
      row += c == '|' ? '/' : c;
  }
  return row + " |\n";
}

}  // namespace

std::string model_card(const ModelCard& card, const ModelCheckpoint& checkpoint) {
  const ModelDescription model = checkpoint.describe();
  const std::optional<SaneSettings>& sane = checkpoint.sane();
  std::string text = front_matter(card, model, sane.has_value());
  text += fmt::format(
      "\n# {}\n\n{}, {} layers of {} channels, vocabulary {}, {:.1f} M parameters, {}. {}\n",
      card.name, model.title, model.layers, model.channels, model.vocabulary,
      millions_of_parameters(checkpoint), card.type, card.tokens);
  if (!card.base_model.empty()) text += cat("\nMade from ", card.base_model, ".\n");
  if (sane) text += about_sane(*sane);
  if (!card.table.empty()) text += cat("\n## Scores\n\n", card.table);
  text += cat("\n## Use\n\n", card.files);
  return text;
}

std::string markdown_table(const fs::path& path) {
  const std::string text = read_file(path);
  if (!valid_utf8(text)) fail(Fault::file, path, ": expected UTF-8 text, found other bytes");
  std::istringstream lines(text);
  std::string out;
  size_t rows = 0;
  for (std::string line; std::getline(lines, line);) {
    const bool csv = path.extension() == ".csv";
    if (csv && line.find_first_not_of("\r ") == line.npos) continue;
    if (csv ? line.find(',') != line.npos : line.starts_with("|")) ++rows;
    out += csv ? markdown_row(line) : line + "\n";
    if (csv && rows == 1) {
      out += "|";
      for (size_t i = 1, count = size_t(std::ranges::count(out, '|')); i + 1 < count; ++i)
        out += "---|";
      out += "\n";
    }
  }
  if (rows < 2)
    fail(Fault::file, path,
         ": expected a table with a heading and rows, in Markdown or as .csv, "
         "found none; deltasane compare writes one");
  return out;
}

}  // namespace deltasane::cli
