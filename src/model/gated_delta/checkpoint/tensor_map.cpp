#include "model/gated_delta/checkpoint/tensor_map.h"

#include <algorithm>

#include "base/printable.h"
#include "model/gated_delta/checkpoint/tensor_table.h"

namespace deltasane::gated_delta {

const StoredTensor& TensorMap::plan(const std::string& name, const Shape& shape) {
  const auto found = std::ranges::find(planned_, name, &StoredTensor::name);
  if (found != planned_.end()) return *found;
  planned_.emplace_back();
  planned_.back().name = name, planned_.back().shape = shape;
  return planned_.back();
}

const StoredTensor& TensorMap::stored(const std::string& name, int64_t rows, int64_t length) {
  if (!file_) return plan(name, length == 1 ? Shape{rows} : Shape{rows, length});
  const StoredTensor* const found = file_->find(name);
  if (!found) fail(Fault::file, file_->path(), ": expected the tensor ", name, ", found none");
  const Shape& shape = found->shape;
  const bool fits = shape.elements() == rows * length && shape.rank() > 0 &&
                    (length == 1 || shape[shape.rank() - 1] == length);
  if (!fits)
    fail(Fault::file, file_->path(), ": tensor ", name, ": expected ", rows,
         length == 1 ? " numbers" : cat(" rows of ", length), ", found shape ", shape);
  used_.insert(name);
  return *found;
}

void TensorMap::place(const std::string& ours, const Shape& shape, std::vector<Rows> rows,
                      Change change) {
  int64_t length = shape.rank() == 1 ? 1 : shape[shape.rank() - 1];
  if (change == Change::transpose) length = shape[shape.rank() - 2];
  int64_t count = 0;
  for (const Rows& some : rows) count += some.count;
  require(count * length == shape.elements(), "the rows of a part are all of its numbers");
  parts_[ours] = {shape, length, std::move(rows), change};
}

void TensorMap::whole(const std::string& ours, const Shape& shape, const std::string& name,
                      Change change) {
  int64_t length = shape.rank() == 1 ? 1 : shape[shape.rank() - 1];
  if (change == Change::transpose) length = shape[shape.rank() - 2];
  if (!file_ && change == Change::none) plan(name, shape);  // of any rank
  place(ours, shape, {all(name, shape.elements() / length, length)}, change);
}

void TensorMap::refuse_others(std::initializer_list<std::string_view> ignored) const {
  if (!file_) return;
  for (const StoredTensor& tensor : file_->tensors()) {
    const bool known = used_.contains(tensor.name) ||
                       std::ranges::any_of(ignored, [&](std::string_view start) {
                         return tensor.name.starts_with(start);
                       });
    if (!known)
      fail(Fault::file, file_->path(), ": tensor ", printable(tensor.name),
           ": expected none of this name");
  }
}

void map_own_names(TensorMap& map) {
  each_tensor(map.config(), [&](const std::string& name, const Shape& shape, TensorForm) {
    // Files of earlier versions have exp(A_log).
    std::string rate = name;
    if (const size_t at = rate.find("decay_log_rate"); at != rate.npos && !map.has(name))
      rate.replace(at, std::string::npos, "decay_rate");
    const bool found = rate != name && map.has(rate);
    map.whole(name, shape, found ? rate : name, found ? Change::logarithm : Change::none);
  });
  map.refuse_others({});
}

}  // namespace deltasane::gated_delta
