#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/io/file.h"
#include "cli/command.h"
#include "cli/open_model.h"
#include "cli/terminal/terminal.h"
#include "cli/text/input_text.h"
#include "model/registry.h"
#include "text/tokenizer_bench.h"

namespace deltasane::cli {
namespace {

struct TokenizeOptions {
  const CLI::Option* text_flag = nullptr;
  std::string tokenizer, text, file, input;
  std::vector<int32_t> decode;
  bool plain = false, document = false, json = false, bench = false;
};

int tokenize_text(const TokenizeOptions& options) {
  const int given = (options.text_flag->count() > 0) + !options.file.empty() +
                    !options.input.empty() + !options.decode.empty();
  if (given > 1 || (given == 0 && !has_piped_input()))
    fail(Fault::usage,
         "tokenize: expected one of --text, --file, --decode and text on standard input, found ",
         given == 0 ? "none" : "several");
  const auto tokenizer = tokenizer_named(options.tokenizer);
  const auto special = options.plain ? SpecialTokens::as_text : SpecialTokens::recognized;
  if (!options.decode.empty()) {
    const int32_t ids = tokenizer->vocabulary_size();
    for (const int32_t id : options.decode)
      if (id < 0 || id >= ids)
        fail(Fault::usage, "--decode: expected ids from 0 to ", ids - 1, ", found ", id);
    const std::string text = tokenizer->decode(options.decode, special);
    fmt::print("{}\n", options.json ? json_text(nlohmann::ordered_json{{"text", text}}) : text);
    return 0;
  }
  const bool is_input = given == 0 || !options.input.empty() || options.text == "-";
  const std::string text = is_input               ? input_text("-")
                           : options.file.empty() ? options.text
                                                  : input_text(options.file);
  if (options.bench) {
    const auto rate = measure_encode_rate(*tokenizer, text, 1.0);
    fmt::print("{:.1f} MB/s on one core, {:.2f} bytes per token\n", rate.megabytes_per_second,
               rate.bytes_per_token);
    return 0;
  }
  const std::vector<int32_t> ids = options.document ? tokenizer->encode_document(text, special)
                                                    : tokenizer->encode(text, special);
  if (options.json)
    fmt::print("{}\n", nlohmann::json{{"ids", ids}, {"count", ids.size()}}.dump());
  else
    fmt::print("{}\n", fmt::join(ids, " "));
  return 0;
}

}  // namespace

const Command tokenize{
    "tokenize", "text to token ids, and back", [](CLI::App& app) {
      auto options = std::make_shared<TokenizeOptions>();
      app.add_option("-m,--model,TOKENIZER", options->tokenizer,
                     std::string(tokenizer_help) + "; or a model file")
          ->required();
      describe_input_word(app, options->input);
      options->text_flag = app.add_option("-p,--text", options->text, "the text; -: standard input");
      app.add_option("-f,--file", options->file, "a file with the text; -: standard input");
      app.add_option("--decode", options->decode, "ids to turn into text");
      app.add_flag("--plain", options->plain,
                   "treat special tokens such as <|im_end|> as ordinary text; with --decode, leave them "
                   "out");
      app.add_flag("--document", options->document,
                   "with the tokens that the model expects at the beginning of a document");
      app.add_flag("--bench", options->bench, "measure the encoding instead");
      app.add_flag("--json", options->json, "print JSON");
      app.footer(
          "Examples:\n  deltasane tokenize rwkv_vocab_v20230424.txt --text 'Hello world'\n"
          "  deltasane tokenize tokenizer.json --file prompt.txt --json\n"
          "  wc -c < prompt.txt; deltasane tokenize model.gguf --json < prompt.txt");
      return [options] { return tokenize_text(*options); };
    }};

}  // namespace deltasane::cli
