#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "base/io/folder.h"
#include "cli/command.h"
#include "cli/number_range.h"
#include "cli/open_model.h"
#include "cli/publish/model_card.h"
#include "cli/publish/tokenizer_files.h"
#include "format/tokenizer/find_tokenizer.h"

namespace deltasane::cli {
namespace {

struct PublishOptions {
  std::string model, out, format = "hf", type, tokenizer, table;
  ModelCard card;
};

// A name goes into YAML, into a file's name and into Markdown.
void expect_plain(const char* flag, const std::string& text) {
  if (text.find_first_of("\n\r:#'\"`") != text.npos || text.starts_with('-'))
    fail(Fault::usage, flag, ": expected plain words, found '", text, "'");
}

std::string pth_notes(const std::string& file, const ModelCheckpoint& checkpoint) {
  std::string notes = cat("With PyTorch:\n\n```python\nimport torch\n\nweights = torch.load(\"",
                          file, "\", weights_only=True)\n```\n");
  if (checkpoint.sane())
    notes +=
        "\nThe tensors `sane.alpha` and `sane.chunk`, of one element each, are SANE's settings.\n";
  return notes;
}

// The tokenizer.json that open_tokenizer reads; empty where it is another.
fs::path tokenizer_json(const PublishOptions& options) {
  const fs::path named = options.tokenizer;
  if (named.extension() == ".json") return named;
  const auto found =
      tokenizer_file_beside(options.tokenizer.empty() ? fs::path(options.model) : named);
  return found && found->extension() == ".json" ? *found : fs::path();
}

int publish_model(const PublishOptions& options) {
  const auto opened = open_checkpoint(options.model, false);
  const ModelCheckpoint& checkpoint = *opened;
  const StoredType type = written_type(checkpoint, options.type);
  ModelCard card = options.card;
  const fs::path out = fs::path(options.out).lexically_normal();
  if (card.name.empty()) card.name = (out.has_filename() ? out : out.parent_path()).filename();
  expect_plain("--name", card.name);
  expect_plain("--license", card.license);
  expect_plain("--base-model", card.base_model);
  if (card.name.find('/') != card.name.npos)
    fail(Fault::usage, "--name: expected a name without '/', found '", card.name, "'");
  if (!options.table.empty()) card.table = markdown_table(options.table);
  card.type = name_of(type);
  if (fs::exists(out) && !(fs::is_directory(out) && fs::is_empty(out)))
    fail(Fault::usage, out,
         ": expected a folder that is not there or empty, found another; name a ",
         "new one, or remove it");
  const auto tokenizer = open_tokenizer(options.tokenizer, checkpoint, options.model);

  AtomicFolder folder(out);
  if (options.format == "pth") {
    const std::string file = card.name + ".pth";
    checkpoint.write_pth(folder.path() / file, type);
    write_vocabulary_file(folder.path(), *tokenizer);
    card.files = pth_notes(file, checkpoint);
  } else {
    card.files = checkpoint.write_hugging_face(folder.path(), type, tokenizer->end_of_document());
    card.tokens = write_tokenizer_files(folder.path(), *tokenizer, tokenizer_json(options));
  }
  for (size_t at; (at = card.files.find("PATH")) != card.files.npos;)
    card.files.replace(at, 4, card.name);
  const std::string file = options.format == "pth" ? card.name + ".pth" : ".";
  card.files += cat("\nWith deltasane", checkpoint.sane() ? ", which applies SANE" : "",
                    ", in this folder:\n\n```sh\ndeltasane chat ", file, "\n```\n");
  replace_file(folder.path() / "README.md", model_card(card, checkpoint));
  folder.commit();

  uint64_t bytes = 0;
  for (const fs::directory_entry& entry : fs::directory_iterator(out)) bytes += entry.file_size();
  fmt::print("{}: written, {}, {:.1f} MB\n", out.string(), name_of(type), double(bytes) / 1e6);
  return 0;
}

}  // namespace

const Command publish{
    "publish", "write a model as a folder to upload, with a model card", [](CLI::App& app) {
      auto options = std::make_shared<PublishOptions>();
      app.add_option("MODEL", options->model, "any model file this program reads")->required();
      app.add_option("OUT", options->out, "the folder, which is not there yet")->required();
      app.add_option("--format", options->format,
                     "hf: for the Hugging Face libraries; pth: one file for PyTorch")
          ->check(one_of({"hf", "pth"}))
          ->capture_default_str();
      app.add_option("--type", options->type, "f32, f16 or bf16; as in the file if not given");
      app.add_option("--tokenizer", options->tokenizer, tokenizer_help);
      app.add_option("--name", options->card.name, "of the model; that of the folder if not given");
      app.add_option("--license", options->card.license, "for the card, such as apache-2.0");
      app.add_option("--base-model", options->card.base_model, "what the model was made from");
      app.add_option("--table", options->table,
                     "scores for the card: Markdown or .csv, as compare writes them");
      app.footer(
          "SANE's tensors and settings travel along; programs without SANE run the baseline.\n"
          "Examples:\n"
          "  deltasane compare runs/* --out scores.md\n"
          "  deltasane publish model.safetensors out --license apache-2.0 --table scores.md\n"
          "  deltasane publish model.safetensors out --format pth --type bf16");
      return [options] { return publish_model(*options); };
    }};

}  // namespace deltasane::cli
