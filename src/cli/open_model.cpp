#include "cli/open_model.h"

#include <CLI/CLI.hpp>

#include "text/byte_tokenizer.h"
#include "text/world_tokenizer.h"

namespace deltasane::cli {
namespace {

constexpr const char* world_file = "rwkv_vocab_v20230424.txt";

std::optional<kernel::WeightType> weight_type_named(const std::string& name) {
  if (name.empty()) return std::nullopt;
  for (const auto type : {kernel::WeightType::f32, kernel::WeightType::f16,
                          kernel::WeightType::bf16, kernel::WeightType::q8})
    if (name == kernel::name_of(type)) return type;
  fail(Fault::usage, "--weights: expected f32, f16, bf16 or q8, found '", name, "'");
}

Rwkv7Options options_of(const ModelFlags& flags) {
  Rwkv7Options options;
  options.device = device_named(flags.device);
  options.weights = weight_type_named(flags.weights);
  if (flags.sane_alpha != 0) options.sane_alpha = flags.sane_alpha;
  options.without_sane = flags.no_sane;
  return options;
}

}  // namespace

void ModelFlags::describe(CLI::App& app) {
  app.add_option("MODEL", path, ".pth, .safetensors, .gguf, rwkv.cpp .bin, or a model folder")
      ->required();
  app.add_option("--tokenizer", tokenizer, "a World vocabulary file, or 'byte'");
  app.add_option("--threads", threads, "threads; 0: all processors")->capture_default_str();
  app.add_option("--weights", weights,
                 "compute with f32, f16, bf16 or q8; as in the file if not given. On a GPU: f32, "
                 "or else bf16");
  app.add_option("--device", device, "cpu, cuda (the first GPU) or cuda:N")->capture_default_str();
  app.add_option("--sane-alpha", sane_alpha,
                 "apply SANE to a model that was not trained with it: tau = alpha ln 2 + 1");
  app.add_flag("--no-sane", no_sane, "run without SANE");
}

OpenModel::OpenModel(const ModelFlags& flags)
    : threads(flags.threads),
      model(Rwkv7Checkpoint(flags.path), options_of(flags)),
      name(fs::path(flags.path).filename().string()) {}

std::unique_ptr<Tokenizer> open_tokenizer(const std::string& flag,
                                          const Rwkv7Checkpoint& checkpoint,
                                          const std::string& model_path) {
  if (flag == "byte") return std::make_unique<ByteTokenizer>();
  if (!flag.empty()) return std::make_unique<WorldTokenizer>(world_from_file(flag));
  if (checkpoint.vocabulary())
    return std::make_unique<WorldTokenizer>(world_from_gguf_tokens(*checkpoint.vocabulary()));
  const fs::path here(model_path);
  const fs::path beside = (fs::is_directory(here) ? here : here.parent_path()) / world_file;
  if (fs::exists(beside)) return std::make_unique<WorldTokenizer>(world_from_file(beside));
  if (checkpoint.shape("emb.weight")[0] == 256) return std::make_unique<ByteTokenizer>();
  fail(Fault::file, model_path, ": expected a vocabulary inside it or ", beside,
       ", found neither; give one with --tokenizer FILE");
}

}  // namespace deltasane::cli
