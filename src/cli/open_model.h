// The flags every command that runs a model has, and the model they open.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "infer/state_file.h"
#include "model/registry.h"
#include "text/tokenizer.h"

namespace CLI {
class App;
}

namespace deltasane::cli {

struct ModelFlags {
  std::string path, tokenizer, weights, device = "cpu";
  int threads = 0;
  std::optional<double> sane_alpha;
  bool no_sane = false, allow_nonfinite = false;
  std::optional<int64_t> attention_window;

  void describe(CLI::App& app);
};

// Of every command that reads a model file.
void describe_allow_nonfinite(CLI::App& app, bool& flag);
std::unique_ptr<ModelCheckpoint> open_checkpoint(const std::string& path, bool allow_nonfinite);
// Calls `open`; a refusal of weights that are not finite says what flag accepts them.
void explain_nonfinite(const std::function<void()>& open);

// A state for a model; the refusal of another SANE says what flag accepts it.
SavedState open_state(const LanguageModel& model, const std::string& path,
                      const std::string& model_name, OtherSane other_sane);

struct OpenModel {
  explicit OpenModel(const ModelFlags& flags);

  ThreadPool threads;
  std::unique_ptr<LanguageModel> owned;
  const LanguageModel& model;
  std::string name;  // of the file, for messages and state files
  kernel::Cpu cpu() { return {threads}; }
};

// Says how large the states of `sequences` that are read up to `position` become, where they grow with
// every token; fails where they do not fit the free memory.
void foresee_states(const LanguageModel& model, int64_t position, int64_t sequences = 1);

// The type to write a model in: the named one, or that of its large matrices, if it is plain.
StoredType written_type(const ModelCheckpoint& checkpoint, const std::string& name);

// What names a tokenizer, for help texts.
inline constexpr const char* tokenizer_help =
    "tokenizer.json, a folder or .gguf with a tokenizer, a World vocabulary file, or 'byte'";

// From --tokenizer, from inside the checkpoint, from a file beside it, or bytes for a vocabulary of
// 256 (format/tokenizer/find_tokenizer.h); anything else fails.
std::unique_ptr<Tokenizer> open_tokenizer(const std::string& flag,
                                          const ModelCheckpoint& checkpoint,
                                          const std::string& model_path);

}  // namespace deltasane::cli
