// A checkpoint of any architecture: its tensors under the architecture's own names, what it is, and
// writing it in another format or type. Opened by the registry (registry.h).
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "format/tensor_file.h"
#include "model/gguf_request.h"
#include "model/sane.h"
#include "model/state/state_layout.h"
#include "model/tensor_source.h"

namespace deltasane {

// What a model is, for people and for cost models.
struct ModelDescription {
  std::string architecture;  // as in the registry
  std::string title;         // for people
  int64_t layers = 0, channels = 0, vocabulary = 0;
  double layer_flops = 0, head_flops = 0;  // of one token: all layers; the output matrix

  // The other sizes: a key for JSON, words for people, one number or several named ones.
  struct Size {
    std::string key, label, text;
    std::vector<std::pair<std::string, int64_t>> values;  // one: its name is not used
  };
  std::vector<Size> sizes;
};

class ModelCheckpoint : public TensorSource {
 public:
  virtual StoredType type(std::string_view name) const = 0;
  virtual const TensorFile& file() const = 0;
  virtual const Metadata& metadata() const = 0;  // the file's, and what follows from it
  virtual const std::optional<SaneSettings>& sane() const = 0;  // none for a baseline

  // Checks that the model is complete and agrees with what the file says about itself.
  virtual ModelDescription describe() const = 0;
  virtual StateLayout state_layout() const = 0;
  virtual StoredType matrix_type() const = 0;  // of the large matrices

  const std::optional<std::vector<std::string>>& vocabulary() const { return file().vocabulary(); }
  uint64_t identity() const { return file().identity(); }  // reads the whole file

  virtual void write_safetensors(const fs::path& path, StoredType type,
                                 const Metadata& metadata) const = 0;
  // These three fail where an architecture has no such files.
  virtual void write_gguf(const fs::path& path, const GgufRequest& request) const;
  // As torch.load reads it, with SANE's settings.
  virtual void write_pth(const fs::path& path, StoredType type) const;
  // Weights and configuration as the Hugging Face libraries read them, into a folder that is there.
  // Returns what a model card says about other programs: Markdown, with PATH for the model's name.
  virtual std::string write_hugging_face(const fs::path& folder, StoredType type,
                                         std::optional<int32_t> end_of_document) const;
};

}  // namespace deltasane
