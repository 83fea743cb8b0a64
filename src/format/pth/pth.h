// PyTorch's .pth: a ZIP archive (zip.h) with a pickle (pickle.h) that describes tensors and one
// entry per storage. Nothing in it is executed.
//
// Tensors may share a storage and may have strides; a tensor with more elements than its
// storage (an expanded view, which could have any size) is rejected.
#pragma once

#include "format/tensor_file.h"
#include "format/tensor_plan.h"

namespace deltasane {

TensorFile read_pth(std::span<const std::byte> bytes, const std::string& name);
TensorFile open_pth(const fs::path& path);
// The checksums of tensors are left to the caller (contents/contents.h); all others are verified.
TensorFile open_pth_unverified(const fs::path& path);

// Writes tensors that are produced one at a time, in the order of the plan: an OrderedDict as
// torch.save writes it, a storage for each tensor. Replaces `path` atomically.
void write_pth(const fs::path& path, const std::vector<PlannedTensor>& plan,
               const FillTensor& fill);

}  // namespace deltasane
