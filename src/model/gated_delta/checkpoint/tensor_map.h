// Where our tensors (tensor_table.h) lie in a file of another layout: each is made of rows of stored
// tensors, in order, and of one change at most.
#pragma once

#include <deque>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "format/tensor_file.h"
#include "model/gated_delta/config.h"

namespace deltasane::gated_delta {

enum class Change {
  none,
  add_one,          // a norm that is stored as w for 1 + w
  logarithm,        // of files with exp(A_log)
  log_of_negative,  // GGUF's -exp(A_log)
  transpose,        // of each matrix of (matrices, out, in), stored (matrices, in, out)
  group_the_columns  // value heads of each row, from GGUF's tiled order
};

// Rows [first, first + count) of a stored tensor.
struct Rows {
  const StoredTensor* tensor;
  int64_t first, count;
};

struct Part {
  Shape shape;     // ours
  int64_t length;  // numbers in a row; 1 for vectors
  std::vector<Rows> rows;
  Change change = Change::none;
};

// Where a file that has value heads tiled keeps our value head `head`.
inline int64_t tiled_head(const Config& c, int64_t head) {
  const int64_t ratio = c.value_heads / c.key_heads;
  return head % ratio * c.key_heads + head / ratio;
}

class TensorMap {
 public:
  TensorMap(const TensorFile& file, const Config& config) : file_(&file), config_(config) {}
  // For a file that is to be written: it has what is asked for, and no alternatives.
  explicit TensorMap(const Config& config) : config_(config) {}

  bool has(std::string_view stored) const { return file_ && file_->find(stored) != nullptr; }
  bool to_write() const { return !file_; }
  // Whether the file has it with so many rows.
  bool has_rows(std::string_view stored, int64_t rows) const {
    const StoredTensor* const found = file_ ? file_->find(stored) : nullptr;
    return found && found->shape.rank() > 0 && found->shape[0] == rows;
  }
  // A stored tensor of `rows` rows of `length` numbers, whatever its rank.
  const StoredTensor& stored(const std::string& name, int64_t rows, int64_t length);

  // Fails where the rows are not as many as ours has.
  void place(const std::string& ours, const Shape& shape, std::vector<Rows> rows,
             Change change = Change::none);
  // One stored tensor, or several after one another, each whole.
  void whole(const std::string& ours, const Shape& shape, const std::string& name,
             Change change = Change::none);
  void vector(const std::string& ours, int64_t size, const std::string& name,
              Change change = Change::none) {
    whole(ours, {size}, name, change);
  }
  Rows all(const std::string& name, int64_t rows, int64_t length) {
    return {&stored(name, rows, length), 0, rows};
  }

  // Fails where a stored tensor was not used and does not begin with one of these.
  void refuse_others(std::initializer_list<std::string_view> ignored) const;

  const Config& config() const { return config_; }
  const std::deque<StoredTensor>& planned() const { return planned_; }
  const std::map<std::string, Part, std::less<>>& parts() const { return parts_; }

 private:
  const StoredTensor& plan(const std::string& name, const Shape& shape);

  const TensorFile* file_ = nullptr;
  const Config& config_;
  std::deque<StoredTensor> planned_;  // without numbers
  std::map<std::string, Part, std::less<>> parts_;
  std::set<std::string, std::less<>> used_;
};

void map_own_names(TensorMap& map);
void map_hugging_face_names(TensorMap& map);
void map_gguf_names(TensorMap& map);

}  // namespace deltasane::gated_delta
