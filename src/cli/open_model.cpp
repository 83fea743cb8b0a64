#include "cli/open_model.h"

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "base/io/host_memory.h"
#include "format/tokenizer/find_tokenizer.h"
#include "kernel/matmul/weights.h"

namespace deltasane::cli {
namespace {

std::optional<kernel::WeightType> weight_type_named(const std::string& name) {
  if (name.empty()) return std::nullopt;
  return kernel::weight_type_named(name, "--weights", "file, ");
}

NonFiniteWeights weights_wanted(bool allow) {
  return allow ? NonFiniteWeights::allow : NonFiniteWeights::refuse;
}

OpenOptions options_of(const ModelFlags& flags) {
  OpenOptions options;
  options.device = device_named(flags.device);
  options.stored_types = flags.weights == "file";
  if (!options.stored_types) options.weights = weight_type_named(flags.weights);
  if (flags.sane_alpha && flags.no_sane)
    fail(Fault::usage, "--sane-alpha and --no-sane: expected one of them, found both");
  if (flags.sane_alpha == 0.0)
    fail(Fault::usage, "--sane-alpha: 0 is not a strength; use --no-sane to switch SANE off");
  options.sane.alpha = flags.sane_alpha;
  options.sane.none = flags.no_sane;
  options.non_finite = weights_wanted(flags.allow_nonfinite);
  if (flags.attention_window && *flags.attention_window < 1)
    fail(Fault::usage, "--attention-window: expected at least 1, found ", *flags.attention_window);
  options.attention_window = flags.attention_window;
  return options;
}

std::unique_ptr<LanguageModel> open(const ModelFlags& flags) {
  std::unique_ptr<LanguageModel> opened;
  explain_nonfinite([&] { opened = open_model(flags.path, options_of(flags)); });
  return opened;
}

// A folder's path may end in '/'.
std::string name_of_path(const fs::path& path) {
  return (path.has_filename() ? path : path.parent_path()).filename().string();
}

}  // namespace

void ModelFlags::describe(CLI::App& app) {
  app.add_option("-m,--model,MODEL", path, ".pth, .safetensors, .gguf, rwkv.cpp .bin, or a model folder")
      ->required();
  app.add_option("--tokenizer", tokenizer, tokenizer_help);
  app.add_option("-t,--threads", threads, "threads; 0: all processors")->capture_default_str();
  app.add_option("--weights", weights,
                 cat("compute with ", kernel::weight_types_text,
                     "; 'file', or not given: as in the file. On a GPU: bf16 if not given, never f16, and "
                     "q8 to q4 and 'file' of some architectures"));
  app.add_option("--device", device, "cpu, cuda (the first GPU) or cuda:N")->capture_default_str();
  app.add_option("--sane-alpha", sane_alpha,
                 "apply SANE to a model that was not trained with it: tau = alpha ln 2 + 1; "
                 "tau must be above 0, so alpha above -1.44");
  app.add_flag("--no-sane", no_sane, "run without SANE");
  app.add_option("--attention-window", attention_window,
                 "attention sees the last N tokens and the first few, in constant memory; all tokens "
                 "if not given");
  describe_allow_nonfinite(app, allow_nonfinite);
}

void describe_allow_nonfinite(CLI::App& app, bool& flag) {
  app.add_flag("--allow-nonfinite", flag, "accept weights that are infinite or NaN, to study them");
}

void explain_nonfinite(const std::function<void()>& open) {
  try {
    open();
  } catch (const NonFiniteError& error) {
    fail(Fault::overflow, error.what(), ". To study them: --allow-nonfinite");
  }
}

std::unique_ptr<ModelCheckpoint> open_checkpoint(const std::string& path, bool allow_nonfinite) {
  std::unique_ptr<ModelCheckpoint> opened;
  explain_nonfinite(
      [&] { opened = deltasane::open_checkpoint(path, weights_wanted(allow_nonfinite)); });
  return opened;
}

SavedState open_state(const LanguageModel& model, const std::string& path,
                      const std::string& model_name, OtherSane other_sane) {
  try {
    return load_state_of(model, path, model_name, other_sane);
  } catch (const OtherSaneError& error) {
    fail(Fault::file, error.what(), " with --accept-other-sane");
  }
}

OpenModel::OpenModel(const ModelFlags& flags)
    : threads(flags.threads),
      owned(open(flags)),
      model(*owned),
      name(name_of_path(flags.path)) {}

void foresee_states(const LanguageModel& model, int64_t position, int64_t sequences) {
  if (model.state_layout()->caches() == 0) return;
  const uint64_t bytes = model.state_bytes(position) * uint64_t(sequences);
  const uint64_t found = host_memory_size().free;
  if (bytes > found)
    fail(Fault::usage, "memory: expected ", bytes_text(bytes), " for the attention caches of ",
         sequences, " x ", position, " tokens, found ", bytes_text(found),
         " free; read fewer tokens, or give --attention-window N, which bounds them");
  if (bytes >= uint64_t{1} << 30)
    fmt::print(stderr, "states grow to {}, of {} of memory free\n", bytes_text(bytes),
               bytes_text(found));
}

StoredType written_type(const ModelCheckpoint& checkpoint, const std::string& name) {
  if (!name.empty()) return stored_type_named(name);
  const StoredType type = checkpoint.matrix_type();
  return type == StoredType::f32 || type == StoredType::bf16 ? type : StoredType::f16;
}

std::unique_ptr<Tokenizer> open_tokenizer(const std::string& flag,
                                          const ModelCheckpoint& checkpoint,
                                          const std::string& model_path) {
  const int64_t rows = checkpoint.describe().vocabulary;
  if (auto found =
          flag.empty() ? find_tokenizer(checkpoint.file(), rows) : open_vocabulary(flag)) {
    // Embeddings have rows to spare at times, but not most of them.
    const int64_t tokens = found->vocabulary_size();
    if (tokens <= rows && rows <= 2 * tokens) return found;
    fail(Fault::usage, flag.empty() ? cat("the tokenizer of ", model_path) : cat("--tokenizer ", flag),
         ": expected one for the ", rows, " tokens of ", model_path, ", found one of ", tokens,
         " tokens; give the model's own with --tokenizer");
  }
  fail(Fault::file, model_path, ": expected a tokenizer inside it, or ",
       tokenizers_beside(model_path), ", found none; give one with --tokenizer FILE");
}

}  // namespace deltasane::cli
