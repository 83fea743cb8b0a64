// Which architectures there are, and how a file is opened as one of them. architectures.cpp has the
// list: one line each.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/io/file.h"
#include "format/contents/finite.h"
#include "model/language_model.h"
#include "model/train/trainable_model.h"
#include "text/tokenizer.h"

namespace deltasane {

struct OpenOptions {
  Device device = {};
  std::optional<kernel::WeightType> weights{};  // none: as in the file, on a GPU bf16
  SaneChoice sane{};
  NonFiniteWeights non_finite = NonFiniteWeights::refuse;
  Checksums checksums = Checksums::verify;
  // Attention sees the last so many tokens and the first few, and caches hold no more: a stream of
  // any length in constant memory. None: all tokens.
  std::optional<int64_t> attention_window{};
  // On a GPU, without `weights`: matrices that the file has quantized stay so, as on the CPU.
  bool stored_types = false;
};

// A model of random weights, for benchmarks.
struct RandomModel {
  std::string size;  // of a released model, such as "0.4B"
  uint64_t seed = 1;
  int64_t slow_heads = 0;  // planted, spread over the layers: they never forget, and overflow
};

struct Architecture {
  std::string_view name;   // as in a file's metadata
  std::string_view title;  // for people
  bool (*recognizes)(const TensorFile& file);
  // Fails, and says why, where the file is not a whole model of this architecture.
  std::unique_ptr<ModelCheckpoint> (*open_checkpoint)(TensorFile file);
  std::unique_ptr<LanguageModel> (*open)(std::unique_ptr<ModelCheckpoint> checkpoint,
                                         const OpenOptions& options);
  // These two are null where an architecture has no such thing.
  // The state that a sequence begins with where it was tuned, from a file of its own.
  SequenceState (*read_tuned_state)(const fs::path& path, std::shared_ptr<const StateLayout> layout);
  const TrainableFactory* training = nullptr;  // null: it cannot be trained
  // Writes a random model; returns the places of its planted heads.
  std::vector<StateHead> (*write_random)(const RandomModel& model, const fs::path& path,
                                         const MatrixTypes& types);
};

std::span<const Architecture> architectures();  // the first one is the default

const Architecture& architecture_of(const TensorFile& file);
const Architecture& architecture_named(std::string_view name);  // fails for one that is not there

std::unique_ptr<ModelCheckpoint> open_checkpoint(
    const fs::path& path, NonFiniteWeights non_finite = NonFiniteWeights::refuse);
std::unique_ptr<LanguageModel> open_model(const fs::path& path, const OpenOptions& options);

// A name that open_vocabulary takes (format/tokenizer/find_tokenizer.h), or a model file or folder,
// whose own it is. Fails where there is none.
std::unique_ptr<Tokenizer> tokenizer_named(const std::string& name);

}  // namespace deltasane
