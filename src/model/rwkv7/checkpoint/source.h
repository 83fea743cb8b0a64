// The sizes of an RWKV-7 model, measured in its tensors, which have the official names and shapes of
// tensor_table.h.
#pragma once

#include "model/rwkv7/checkpoint/tensor_table.h"
#include "model/tensor_source.h"

namespace deltasane {

// A model without ln0 uses its embedding as it is; only some sources may lack it.
enum class EmbeddingNorm { required, optional };

// Measures a model and checks that it is complete: every tensor there, every shape as the others
// imply, nothing over. The first fault is named.
Rwkv7Shape measure_rwkv7(const TensorSource& source,
                         EmbeddingNorm embedding_norm = EmbeddingNorm::required);

}  // namespace deltasane
