// Anything that has the tensors of an RWKV-7 model under their official names: a checkpoint, or a
// model in memory. And what can be asked of every such source.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/rwkv7/checkpoint/tensor_table.h"
#include "format/tensor_file.h"

namespace deltasane {

class Rwkv7Source {
 public:
  virtual ~Rwkv7Source() = default;
  virtual std::vector<std::string> names() const = 0;
  virtual bool has(std::string_view name) const = 0;
  virtual Shape shape(std::string_view name) const = 0;         // as in rwkv7_layout.h
  virtual Tensor<float> read(std::string_view name) const = 0;  // of that shape
  virtual std::string where() const { return "model"; }         // for messages
};

// A model without ln0 uses its embedding as it is; only some sources may lack it.
enum class EmbeddingNorm { required, optional };

// Measures a model and checks that it is complete: every tensor there, every shape as the others
// imply, nothing over. The first fault is named.
Rwkv7Shape measure_rwkv7(const Rwkv7Source& source,
                         EmbeddingNorm embedding_norm = EmbeddingNorm::required);

// The first number that is not finite, in the official order of tensors.
struct NonFinite {
  std::string tensor;
  int64_t index;  // in the tensor, row-major
  float value;
};
std::optional<NonFinite> find_non_finite(const Rwkv7Source& source);
void expect_finite(const Rwkv7Source& source);  // fails where find_non_finite finds

// SANE's two settings, which travel as metadata: sane.alpha and sane.chunk.
struct SaneSettings {
  double alpha = 0;
  int64_t chunk = 0;
  friend bool operator==(const SaneSettings&, const SaneSettings&) = default;
};
// None for a baseline. Fails where settings come without tensors, or tensors without settings.
std::optional<SaneSettings> sane_settings(bool has_tensors, const Metadata& metadata,
                                          std::string_view where);

}  // namespace deltasane
