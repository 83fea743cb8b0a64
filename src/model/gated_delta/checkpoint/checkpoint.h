// A checkpoint of the delta-rule family under our own names (tensor_table.h): a Hugging Face folder,
// a GGUF file, or a safetensors file that this program wrote.
#pragma once

#include "model/gated_delta/checkpoint/tensor_map.h"
#include "model/model_checkpoint.h"

namespace deltasane::gated_delta {

// Whether the file says that it is one of ours.
bool is_ours(const TensorFile& file);

class Checkpoint : public ModelCheckpoint {
 public:
  explicit Checkpoint(TensorFile file);  // complete: every tensor there, none over
  Checkpoint(Checkpoint&&) = default;    // no copies: parts point into the file

  const Config& config() const { return config_; }
  std::vector<std::string> names() const override { return names_; }
  bool has(std::string_view name) const override { return parts_.contains(name); }
  Shape shape(std::string_view name) const override { return part(name).shape; }
  StoredType type(std::string_view name) const override { return part(name).rows[0].tensor->type; }
  Tensor<float> read(std::string_view name) const override;
  std::string where() const override { return file_.path(); }

  // One matrix of (matrices, out, in), or all of (out, in), as the file stores its numbers, row-major:
  // where it lies, or gathered in `memory`. None where there is no such thing.
  std::optional<StoredTensor> packed(std::string_view name, int64_t matrix,
                                     std::vector<std::byte>& memory) const;

  const TensorFile& file() const override { return file_; }
  const Metadata& metadata() const override { return file_.metadata(); }
  const std::optional<SaneSettings>& sane() const override { return sane_; }
  ModelDescription describe() const override;
  StateLayout state_layout() const override { return gated_delta::state_layout(config_); }
  StoredType matrix_type() const override { return type("layers.0.mixer.output.weight"); }
  void write_safetensors(const fs::path& path, StoredType type,
                         const Metadata& metadata) const override;
  void write_gguf(const fs::path& path, const GgufRequest& request) const override;
  std::string write_hugging_face(const fs::path& folder, StoredType type,
                                 std::optional<int32_t> end_of_document) const override;

 private:
  const Part& part(std::string_view name) const;
  Tensor<float> read_rows(const Rows& rows, int64_t length) const;

  TensorFile file_;
  Config config_;
  std::map<std::string, Part, std::less<>> parts_;
  std::vector<std::string> names_;
  std::optional<SaneSettings> sane_;
};

// What a file of ours says of a model: its settings, and SANE's of `metadata`.
Metadata own_metadata(const Config& config, const Metadata& metadata);

// Writes any source of the tensors of each_tensor(config) as safetensors: matrices of `type`, vectors
// of f32. A SANE model needs the metadata sane.alpha and sane.chunk.
void write(const fs::path& path, const Config& config, const TensorSource& source, StoredType type,
           const Metadata& metadata);
// As GGUF. gguf: a file whose bytes are taken where they are what is wanted; null: none.
void write_gguf(const fs::path& path, const Config& config, const TensorSource& source,
                const TensorFile* gguf, const GgufRequest& request);
// As ModelCheckpoint::write_hugging_face. sane: of a model that has its tensors.
std::string write_hugging_face(const fs::path& folder, const Config& config,
                               const TensorSource& source, StoredType type,
                               std::optional<int32_t> end_of_document,
                               const std::optional<SaneSettings>& sane = {});

}  // namespace deltasane::gated_delta
