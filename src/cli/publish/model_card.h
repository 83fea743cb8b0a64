// The README.md of a published model: what it is, its scores, how to use it.
#pragma once

#include <optional>
#include <string>

#include "model/model_checkpoint.h"

namespace deltasane::cli {

struct ModelCard {
  std::string name, license, base_model;  // the last two: empty where nobody said
  std::string table;                      // Markdown, or empty
  std::string files;                      // Markdown: how other programs load the files
  std::string tokens;                     // a sentence about the tokenizer
  std::string type;
};

std::string model_card(const ModelCard& card, const ModelCheckpoint& checkpoint);

// A table of scores as Markdown: a Markdown file as it is, a CSV file converted. Fails for a file
// that has no table.
std::string markdown_table(const fs::path& path);

}  // namespace deltasane::cli
