#include "model/registry.h"

#include "format/gguf/gguf.h"
#include "format/open.h"
#include "format/tokenizer/find_tokenizer.h"

namespace deltasane {
namespace {

bool names_model(const fs::path& path) {
  if (fs::is_directory(path)) return !tokenizer_file_beside(path);
  const std::string kind = path.extension();
  // A GGUF file with a tokenizer may be of a model that is not known.
  if (kind == ".gguf") return !open_gguf(path).vocabulary();
  return kind == ".pth" || kind == ".safetensors" || kind == ".bin";
}

}  // namespace

const Architecture& architecture_of(const TensorFile& file) {
  for (const Architecture& one : architectures())
    if (one.recognizes(file)) return one;
  return architectures().front();  // which says what it misses
}

const Architecture& architecture_named(std::string_view name) {
  std::string known;
  for (const Architecture& one : architectures()) {
    if (one.name == name) return one;
    known += cat(known.empty() ? "" : ", ", one.name);
  }
  fail(Fault::usage, "architecture: expected ", known, ", found '", name, "'");
}

const TrainableFactory& trainable_factory(std::string_view architecture) {
  std::string known;
  for (const Architecture& one : architectures()) {
    if (!one.training) continue;
    if (architecture.empty() || one.name == architecture) return *one.training;
    known += cat(known.empty() ? "" : ", ", one.name);
  }
  fail(Fault::usage, "architecture: expected one that can be trained (", known, "), found '",
       architecture, "'");
}

const TrainableFactory& trainable_factory_of(const fs::path& file,
                                             std::string_view architecture) {
  // Who trains it opens it again, and looks at its contents then.
  const TensorFile opened = open_tensor_file(file, NonFiniteWeights::allow, Checksums::skip);
  const std::string_view found = architecture_of(opened).name;
  if (!architecture.empty() && architecture != found)
    fail(Fault::usage, "architecture: expected ", found, ", which ", file, " is of, found '",
         architecture, "'");
  return trainable_factory(found);
}

std::unique_ptr<ModelCheckpoint> open_checkpoint(const fs::path& path,
                                                 NonFiniteWeights non_finite) {
  TensorFile file = open_tensor_file(path, non_finite);
  return architecture_of(file).open_checkpoint(std::move(file));
}

std::unique_ptr<LanguageModel> open_model(const fs::path& path, const OpenOptions& options) {
  TensorFile file = open_tensor_file(path, options.non_finite, options.checksums);
  const Architecture& found = architecture_of(file);
  if (options.attention_window && *options.attention_window < 1)
    fail(Fault::usage, "attention window: expected at least 1 token, found ",
         *options.attention_window);
  auto model = found.open(found.open_checkpoint(std::move(file)), options);
  if (options.attention_window && model->state_layout()->caches() == 0)
    fail(Fault::usage, path, ": expected a model with attention for an attention window, found ",
         model->description().title, " without any");
  return model;
}

std::unique_ptr<Tokenizer> tokenizer_named(const std::string& name) {
  if (!names_model(name)) return open_vocabulary(name);
  const auto checkpoint = open_checkpoint(name, NonFiniteWeights::allow);
  if (auto found = find_tokenizer(checkpoint->file(), checkpoint->describe().vocabulary)) return found;
  fail(Fault::file, name, ": expected a tokenizer inside it, or ", tokenizers_beside(name),
       ", found none");
}

}  // namespace deltasane
