// How Rwkv7Checkpoint finds the official tensors among the stored ones.
#include <charconv>

#include "base/printable.h"
#include "model/rwkv7/checkpoint/checkpoint.h"
#include "model/rwkv7/publish/publish.h"

namespace deltasane {
namespace {

using Form = Rwkv7Row::Form;
using Orientation = Rwkv7Meaning::Orientation;

// The sizes that are not 1; a vector of one element keeps its 1.
std::vector<int64_t> squeezed(const Shape& shape) {
  std::vector<int64_t> sizes;
  for (const int64_t size : shape)
    if (size != 1) sizes.push_back(size);
  if (sizes.empty()) sizes.push_back(1);
  return sizes;
}

int64_t stated_head_size(const Metadata& metadata) {
  const auto found = metadata.find("rwkv7.wkv.head_size");
  if (found == metadata.end()) return 0;
  int64_t size = 0;
  std::from_chars(found->second.data(), found->second.data() + found->second.size(), size);
  return size;
}

}  // namespace

// web-rwkv transposes the low-rank factors and keeps their names; only the sizes tell. Where all
// ranks equal the channels nothing tells, and the official orientation is taken.
bool Rwkv7Checkpoint::factors_are_transposed() const {
  int64_t channels = 0;
  for (const StoredTensor& tensor : file_.tensors()) {
    const auto meaning = rwkv7_meaning(tensor.name, file_.format());
    if (meaning && meaning->row->suffix == "emb.weight" && tensor.shape.rank() == 2)
      channels = tensor.shape[1];
  }
  bool official = false, turned = false;
  for (const StoredTensor& tensor : file_.tensors()) {
    const auto meaning = rwkv7_meaning(tensor.name, file_.format());
    if (!meaning || meaning->dead || meaning->orientation != Orientation::by_shape) continue;
    if (tensor.shape.rank() != 2 || tensor.shape[0] == tensor.shape[1]) continue;
    const int side = meaning->row->rows == Rwkv7Size::C ? 0 : 1;  // where C officially stands
    official = official || tensor.shape[side] == channels;
    turned = turned || tensor.shape[1 - side] == channels;
  }
  if (official && turned)
    fail(Fault::file, file_.path(), ": expected the low-rank factors in one orientation, found ",
         "both [in, out] and [out, in]");
  return turned;
}

void Rwkv7Checkpoint::map_tensors() {
  const bool turned = factors_are_transposed();
  for (const StoredTensor& tensor : file_.tensors()) {
    if (tensor.name == sane_alpha_tensor || tensor.name == sane_chunk_tensor) continue;
    const auto meaning = rwkv7_meaning(tensor.name, file_.format());
    if (!meaning)
      fail(Fault::file, file_.path(), ": tensor ", printable(tensor.name), " at byte ",
           tensor.offset, ": expected a tensor of RWKV-7, found a name that is none");
    if (meaning->dead) continue;
    map_tensor(tensor, *meaning,
               meaning->orientation == Orientation::transposed ||
                   (meaning->orientation == Orientation::by_shape && turned));
  }
  const auto tied = metadata_.find("config.tie_word_embeddings");
  const auto embedding = parts_.find("emb.weight");
  if (tied != metadata_.end() && tied->second == "true" && embedding != parts_.end())
    parts_.emplace("head.weight", embedding->second);
}

void Rwkv7Checkpoint::place(const std::string& name, const Part& part) {
  if (!parts_.emplace(name, part).second)
    fail(Fault::file, file_.path(), ": tensor ", printable(part.tensor->name), " at byte ",
         part.tensor->offset, ": expected one tensor that means ", name, ", found two");
}

void Rwkv7Checkpoint::map_tensor(const StoredTensor& tensor, const Rwkv7Meaning& meaning,
                                 bool transposed) {
  const auto refuse = [&](std::string_view expected) {
    fail(Fault::file, file_.path(), ": tensor ", printable(tensor.name), " at byte ", tensor.offset,
         ": expected ", expected, ", found shape ", tensor.shape);
  };
  const std::vector<int64_t> sizes = squeezed(tensor.shape);
  if (meaning.fused) {
    const int64_t elements = tensor.shape.elements();
    const int64_t count = int64_t(rwkv7_fused_order.size());
    if (tensor.shape.rank() < 2 || tensor.shape[0] != count || sizes.size() > 2)
      refuse("six vectors r, w, k, v, a, g");
    for (int64_t i = 0; i < count; ++i)
      place(rwkv7_block_name(meaning.block, rwkv7_fused_order[size_t(i)]),
            {&tensor, {elements / count}, false, i, count});
    return;
  }
  Part part{&tensor, tensor.shape, transposed, 0, 1};
  const Form form = meaning.row->form;
  if (form == Form::vector || form == Form::spread_vector) {
    if (sizes.size() != 1) refuse("a vector");
    part.shape = {sizes[0]};
  } else if (meaning.row->suffix == "att.r_k" && tensor.shape.rank() == 1) {
    const int64_t size = stated_head_size(metadata_);
    if (size <= 0 || tensor.shape[0] % size != 0)
      refuse("[heads, head size], or the key rwkv7.wkv.head_size that divides it");
    part.shape = {tensor.shape[0] / size, size};
  } else if (tensor.shape.rank() != 2) {
    refuse("a matrix");
  } else if (transposed) {
    part.shape = {tensor.shape[1], tensor.shape[0]};
  }
  place(meaning.name(), part);
}

}  // namespace deltasane
