#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/io/file.h"
#include "cli/command.h"
#include "cli/open_model.h"
#include "format/tokenizer/find_tokenizer.h"
#include "text/tokenizer_bench.h"

namespace deltasane::cli {
namespace {

struct TokenizeOptions {
  std::string tokenizer, text, file;
  std::vector<int32_t> decode;
  bool plain = false, document = false, json = false, bench = false;
};

int tokenize_text(const TokenizeOptions& options) {
  const auto tokenizer = open_vocabulary(options.tokenizer);
  const auto special = options.plain ? SpecialTokens::as_text : SpecialTokens::recognized;
  if (!options.decode.empty()) {
    fmt::print("{}\n", tokenizer->decode(options.decode, special));
    return 0;
  }
  if (options.text.empty() == options.file.empty())
    fail(Fault::usage, "tokenize: expected one of --text, --file and --decode");
  const std::string text = options.file.empty() ? options.text : read_file(options.file);
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
      app.add_option("TOKENIZER", options->tokenizer, tokenizer_help)->required();
      app.add_option("--text", options->text, "the text");
      app.add_option("--file", options->file, "a file with the text");
      app.add_option("--decode", options->decode, "ids to turn into text");
      app.add_flag("--plain", options->plain,
                   "special tokens such as <|im_end|> are text, as in what a user types; decoded, "
                   "they are left out");
      app.add_flag("--document", options->document,
                   "with the tokens that the model expects at the beginning of a document");
      app.add_flag("--bench", options->bench, "measure the encoding instead");
      app.add_flag("--json", options->json, "print JSON");
      app.footer(
          "Examples:\n  deltasane tokenize rwkv_vocab_v20230424.txt --text 'Hello world'\n"
          "  deltasane tokenize tokenizer.json --file prompt.txt --json");
      return [options] { return tokenize_text(*options); };
    }};

}  // namespace deltasane::cli
