#include "model/model_checkpoint.h"

#include "base/error.h"

namespace deltasane {

void ModelCheckpoint::write_gguf(const fs::path& path, const GgufRequest&) const {
  fail(Fault::usage, path, ": expected .safetensors for ", describe().title,
       ", which has no .gguf files");
}

void ModelCheckpoint::write_pth(const fs::path& path, StoredType) const {
  fail(Fault::usage, path, ": expected .safetensors for ", describe().title,
       ", which has no .pth files");
}

std::string ModelCheckpoint::write_hugging_face(const fs::path& folder, StoredType,
                                                std::optional<int32_t>) const {
  fail(Fault::usage, folder, ": expected an architecture with Hugging Face models, found ",
       describe().title);
}

}  // namespace deltasane
