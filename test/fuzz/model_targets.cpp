#include <xxhash.h>

#include "base/error.h"
#include "format/safetensors/safetensors.h"
#include "fuzz/memory_file.h"
#include "fuzz/targets.h"
#include "infer/state_file.h"
#include "model/importance.h"
#include "model/registry.h"
#include "probe/record_file.h"
#include "train/config.h"

namespace deltasane::fuzz {
namespace {

template <class Number>
uint64_t digest(std::span<const Number> numbers) {
  return XXH3_64bits(numbers.data(), numbers.size_bytes());
}

}  // namespace

// A file of tensors as a model: what all formats have in common.
Meaning model(Bytes bytes) {
  TensorFile file = read_safetensors(bytes, "file");
  const uint64_t identity = file.identity();
  const auto checkpoint = architecture_of(file).open_checkpoint(std::move(file));
  checkpoint->describe();
  checkpoint->state_layout();
  for (const std::string& name : checkpoint->names()) checkpoint->read(name);
  return identity;
}

Meaning state(Bytes bytes) {
  read_state(bytes, "file");
  return digest(bytes);
}

Meaning records(Bytes bytes) {
  const probe::RecordTable table = probe::read_records(bytes, "file");
  if (!table.damage.empty()) return std::nullopt;  // it says what was lost
  uint64_t sum = uint64_t(table.rows);
  for (const probe::ColumnValues& column : table.values) {
    sum = sum * 31 + digest(std::span<const int64_t>(column.integers));
    sum = sum * 31 + digest(std::span<const double>(column.reals));
  }
  return sum;
}

// Of a matrix of four inputs.
Meaning importance(Bytes bytes) {
  const MemoryFile file(bytes);
  return digest(std::span<const float>(Importance::read(file.path()).of("matrix", 4)));
}

Meaning config(Bytes bytes) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  uint64_t sum = 0;
  for (const auto& [key, value] : train::read_config(text, "file").identity())
    sum = sum * 31 + digest(std::span<const char>(value));
  return sum;
}

}  // namespace deltasane::fuzz
