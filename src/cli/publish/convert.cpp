#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>

#include "cli/command.h"
#include "cli/open_model.h"
#include "cli/terminal/progress_line.h"
#include "format/quantize/quantize.h"
#include "format/tokenizer/find_tokenizer.h"
#include "format/tokenizer/gguf_tokenizer_write.h"
#include "format/tokenizer/tokenizer_json.h"
#include "model/importance.h"

namespace deltasane::cli {
namespace {

struct ConvertOptions {
  std::string from, to, type, tokenizer, importance;
  bool allow_nonfinite = false;
};

std::vector<GgufEntry> gguf_tokenizer(const ModelCheckpoint& checkpoint,
                                      const ConvertOptions& options) {
  if (options.tokenizer.empty() && checkpoint.vocabulary())
    return gguf_tokenizer_of(checkpoint.file());
  // A file without one, as `bench weights` makes it, stays so.
  if (options.tokenizer.empty() && fs::path(options.from).extension() == ".gguf" &&
      !find_tokenizer(checkpoint.file(), checkpoint.describe().vocabulary))
    return {};
  const auto beside = tokenizer_file_beside(
      options.tokenizer.empty() ? fs::path(options.from) : fs::path(options.tokenizer));
  const fs::path json = fs::path(options.tokenizer).extension() == ".json" ? options.tokenizer
                        : beside                                           ? beside->string()
                                                                           : std::string();
  if (json.extension() == ".json" && options.tokenizer != "byte")
    return gguf_bpe_tokenizer(read_tokenizer_json(json), checkpoint.describe().vocabulary,
                              options.to);
  return gguf_rwkv_tokenizer(*open_tokenizer(options.tokenizer, checkpoint, options.from),
                             checkpoint.describe().vocabulary, options.to);
}

// The type of most numbers of matrices, and that of the output matrix.
MatrixTypes stored_types(const ModelCheckpoint& checkpoint) {
  std::map<StoredType, int64_t> numbers;
  for (const std::string& name : checkpoint.names())
    if (checkpoint.shape(name).rank() > 1)
      numbers[checkpoint.type(name)] += checkpoint.shape(name).elements();
  const auto most = std::ranges::max_element(numbers, {}, [](const auto& one) { return one.second; });
  return {most == numbers.end() ? StoredType::f16 : most->first, checkpoint.matrix_type()};
}

MatrixTypes write_gguf(const ModelCheckpoint& checkpoint, const ConvertOptions& options) {
  GgufRequest request{options.type.empty() ? stored_types(checkpoint)
                                           : matrix_types_named(options.type)};
  if (options.type.empty()) request.keep = GgufRequest::Keep::stored_types;
  request.tokenizer = gguf_tokenizer(checkpoint, options);
  request.metadata = checkpoint.metadata();
  std::optional<Importance> importance;
  if (!options.importance.empty()) {
    if (!uses_importance(request.types.most) && !uses_importance(request.types.sensitive))
      fail(Fault::usage, "--importance: expected --type q4_k, q5_k, q6_k or a mixture of them, found ",
           name_of(request.types));
    importance = Importance::read(options.importance);
    request.importance = [&](const std::string& matrix, int64_t inputs) {
      return importance->of(matrix, inputs);
    };
  }
  ProgressLine line(ProgressLine::First::after_a_pause);
  request.progress = [&](uint64_t done, uint64_t all) {
    if (line.due())
      line.show(fmt::format("{} of {} MB written", done / 1'000'000, all / 1'000'000));
  };
  checkpoint.write_gguf(options.to, request);
  line.end();
  return request.types;
}

int convert_model(const ConvertOptions& options) {
  const auto opened = open_checkpoint(options.from, options.allow_nonfinite);
  const ModelCheckpoint& checkpoint = *opened;
  checkpoint.describe();
  const std::string extension = fs::path(options.to).extension().string();
  if (!options.importance.empty() && extension != ".gguf")
    fail(Fault::usage, "--importance: expected OUT to end in .gguf, found '", options.to, "'");
  MatrixTypes types = StoredType::f16;
  if (extension == ".gguf")
    types = write_gguf(checkpoint, options);
  else if (extension == ".safetensors")
    checkpoint.write_safetensors(options.to, (types = written_type(checkpoint, options.type)).most,
                                 checkpoint.metadata());
  else if (extension == ".pth")
    checkpoint.write_pth(options.to, (types = written_type(checkpoint, options.type)).most);
  else
    fail(Fault::usage, "OUT: expected a name that ends in .safetensors, .gguf or .pth, found '",
         options.to, "'");
  fmt::print("{}: written, {}, {:.1f} MB\n", options.to, name_of(types),
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
                     "f32, f16 or bf16; for .gguf also q8_0, q6_k, q5_k, q4_k, q4_0, and the mixtures "
                     "q5_k_m and q4_k_m, whose costliest matrices are q6_k; as in the file if not "
                     "given");
      app.add_option("--importance", options->importance,
                     "for q4_k, q5_k, q6_k and their mixtures: what `score --importance` wrote");
      app.add_option("--tokenizer", options->tokenizer,
                     "for .gguf: tokenizer.json, a World vocabulary file, or 'byte'; that of the model if not given");
      describe_allow_nonfinite(app, options->allow_nonfinite);
      app.footer("Examples:\n  deltasane convert model.pth model.gguf --type q4_k_m\n"
                 "  deltasane convert model.gguf model.safetensors --type bf16\n"
                 "  deltasane score model.pth -f book.txt --importance book.importance\n"
                 "  deltasane convert model.pth model.gguf --type q4_k_m --importance book.importance");
      return [options] { return convert_model(*options); };
    }};

}  // namespace deltasane::cli
