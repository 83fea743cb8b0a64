#include "model/cpu/embedding_table.h"

#include "format/dequantize.h"

namespace deltasane {

EmbeddingTable::EmbeddingTable(const std::optional<StoredTensor>& stored, int64_t vocabulary,
                               int64_t channels, const std::function<Tensor<float>()>& read_all)
    : vocabulary_(vocabulary), channels_(channels) {
  if (stored && channels % layout_of(stored->type).block == 0)
    stored_ = stored;
  else
    converted_ = read_all();
}

void EmbeddingTable::read(std::span<const int32_t> tokens, View<float> x) const {
  for (size_t i = 0; i < tokens.size(); ++i) {
    float* const row = x.at(int64_t(i));
    if (stored_) {
      const size_t bytes = stored_->bytes.size() / size_t(vocabulary_);
      dequantize_to_float(stored_->type, stored_->bytes.subspan(size_t(tokens[i]) * bytes, bytes),
                          {row, size_t(channels_)});
    } else {
      std::copy_n(converted_.data() + int64_t(tokens[i]) * channels_, channels_, row);
    }
  }
}

uint64_t EmbeddingTable::bytes() const {
  return stored_ ? stored_->bytes.size() : uint64_t(converted_.elements()) * sizeof(float);
}

}  // namespace deltasane
