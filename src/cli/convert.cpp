#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "cli/command.h"
#include "cli/open_model.h"
#include "text/vocabulary/gguf_tokens.h"

namespace deltasane::cli {
namespace {

struct ConvertOptions {
  std::string from, to, type, tokenizer;
  bool allow_nonfinite = false;
};

// The strings GGUF keeps: id 0, the tokens' bytes escaped, and padding up to the model's rows.
std::vector<std::string> gguf_vocabulary(const ModelCheckpoint& checkpoint,
                                         const ConvertOptions& options) {
  if (checkpoint.vocabulary()) return *checkpoint.vocabulary();
  const auto tokenizer = open_tokenizer(options.tokenizer, checkpoint, options.from);
  if (tokenizer->name() != "world")
    fail(Fault::usage, "convert: expected a World vocabulary for GGUF, found ", tokenizer->name(),
         "; write .safetensors instead, or give --tokenizer FILE");
  std::vector<std::string> tokens{"<s>"};
  for (int32_t id = 1; id < tokenizer->vocabulary_size(); ++id)
    tokens.push_back(gguf_escaped(tokenizer->bytes_of(id)));
  for (int64_t id = int64_t(tokens.size()); id < checkpoint.describe().vocabulary; ++id)
    tokens.push_back(cat("[PAD", id, "]"));
  return tokens;
}

int convert_model(const ConvertOptions& options) {
  const auto opened = open_checkpoint(options.from, options.allow_nonfinite);
  const ModelCheckpoint& checkpoint = *opened;
  checkpoint.describe();
  const StoredType type = written_type(checkpoint, options.type);
  const std::string extension = fs::path(options.to).extension().string();
  if (extension == ".gguf")
    checkpoint.write_gguf(options.to, type, gguf_vocabulary(checkpoint, options),
                          checkpoint.metadata());
  else if (extension == ".safetensors")
    checkpoint.write_safetensors(options.to, type, checkpoint.metadata());
  else if (extension == ".pth")
    checkpoint.write_pth(options.to, type);
  else
    fail(Fault::usage, "OUT: expected a name that ends in .safetensors, .gguf or .pth, found '",
         options.to, "'");
  fmt::print("{}: written, {}, {:.1f} MB\n", options.to, name_of(type),
             double(fs::file_size(options.to)) / 1e6);
  return 0;
}

}  // namespace

const Command convert{
    "convert", "write a model in another format or type", [](CLI::App& app) {
      auto options = std::make_shared<ConvertOptions>();
      app.add_option("IN", options->from, "any model file this program reads")->required();
      app.add_option("OUT", options->to, "a name that ends in .safetensors, .gguf or .pth")
          ->required();
      app.add_option("--type", options->type,
                     "f32, f16 or bf16; q8_0 for .gguf; as in the file if not given");
      app.add_option("--tokenizer", options->tokenizer, "a World vocabulary file, for .gguf");
      describe_allow_nonfinite(app, options->allow_nonfinite);
      app.footer("Example:\n  deltasane convert model.pth model.gguf --type q8_0");
      return [options] { return convert_model(*options); };
    }};

}  // namespace deltasane::cli
