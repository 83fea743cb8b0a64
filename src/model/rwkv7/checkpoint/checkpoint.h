// An RWKV-7 checkpoint of any origin, under the official names and in the official orientation.
//
// What it is shows in its contents: .pth, safetensors, GGUF, rwkv.cpp's .bin, a Hugging Face
// folder. Other architectures (RWKV-4, 5, 6 and 8, rwkv7a and rwkv7b, arwkv7, and all that is no
// RWKV) are refused by name, and so is a tensor that RWKV-7 does not have. Left out: the v0, v1, v2
// of block 0 and the ln0 of later blocks, which nobody uses.
//
// Metadata is that of the file, what norms.h derives from it, and SANE's settings where a file has
// them elsewhere (publish/publish.h). validate() has the norms as
// numbers.
#pragma once

#include <cstdint>
#include <map>

#include "model/rwkv7/checkpoint/names.h"
#include "model/model_checkpoint.h"
#include "model/rwkv7/checkpoint/source.h"

namespace deltasane {

class Rwkv7Checkpoint : public ModelCheckpoint {
 public:
  explicit Rwkv7Checkpoint(const fs::path& path);
  explicit Rwkv7Checkpoint(TensorFile file);
  Rwkv7Checkpoint(Rwkv7Checkpoint&&) = default;  // no copies: parts point into the file
  Rwkv7Checkpoint& operator=(Rwkv7Checkpoint&&) = default;

  std::vector<std::string> names() const override { return names_; }  // in the official order
  bool has(std::string_view name) const override { return parts_.contains(name); }
  Shape shape(std::string_view name) const override { return part(name).shape; }
  StoredType type(std::string_view name) const override { return part(name).tensor->type; }
  Tensor<float> read(std::string_view name) const override;
  std::string where() const override { return file_.path(); }
  std::optional<StoredTensor> in_place(std::string_view name) const override;

  // Checks that the model is complete and agrees with what the file says about itself.
  Rwkv7Shape validate() const;
  const std::optional<SaneSettings>& sane() const override { return sane_; }

  const TensorFile& file() const override { return file_; }
  const Metadata& metadata() const override { return metadata_; }
  ModelDescription describe() const override;
  StateLayout state_layout() const override;
  StoredType matrix_type() const override { return type("head.weight"); }
  void write_safetensors(const fs::path& path, StoredType type,
                         const Metadata& metadata) const override;
  void write_gguf(const fs::path& path, const GgufRequest& request) const override;
  void write_pth(const fs::path& path, StoredType type) const override;
  std::string write_hugging_face(const fs::path& folder, StoredType type,
                                 std::optional<int32_t> end_of_document) const override;

 private:
  // Where an official tensor lies.
  struct Part {
    const StoredTensor* tensor;
    Shape shape;  // official
    bool transposed = false;
    int64_t slice = 0, slices = 1;  // of a tensor that holds several
  };

  const Part& part(std::string_view name) const;
  StoredTensor view_of(const Part& part) const;
  void map_tensors();
  void map_tensor(const StoredTensor& tensor, const Rwkv7Meaning& meaning, bool transposed);
  void place(const std::string& name, const Part& part);
  bool factors_are_transposed() const;
  void order_names();
  void derive_metadata();
  void derive_sane();

  TensorFile file_;
  Metadata metadata_;
  std::map<std::string, Part, std::less<>> parts_;
  std::vector<std::string> names_;
  int64_t layers_ = 0;
  EmbeddingNorm embedding_norm_ = EmbeddingNorm::required;
  std::optional<SaneSettings> sane_;
};

}  // namespace deltasane
