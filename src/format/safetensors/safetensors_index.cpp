#include "base/printable.h"
#include "format/json_walk.h"
#include "format/safetensors/safetensors.h"

namespace deltasane {
namespace {

constexpr size_t max_shards = 1000;

// Tensor name -> shard, and the shards by name.
struct Index {
  std::map<std::string, std::string> shard_of;
  std::map<std::string, size_t> shards;  // with the number of tensors in each
};

void check_basename(const std::string& shard, const std::string& index) {
  if (shard.empty() || shard == "." || shard == ".." ||
      shard.find_first_of("/\\\0", 0, 3) != shard.npos)
    fail(Fault::file, index, ": shard ", printable(shard),
         ": expected the name of a file beside the index, found a path");
}

Index read_index(const fs::path& path) {
  const std::string name = path.string();
  Index index;
  walk_json_file(path, {}, [&](const auto& at, const JsonValue& value) {
    if (at.empty() || at[0] != "weight_map") return;
    if (at.size() == 1 &&
        (value.kind == JsonValue::Kind::object || value.kind == JsonValue::Kind::end))
      return;
    if (at.size() != 2 || value.kind != JsonValue::Kind::text)
      fail(Fault::file, name, ": weight_map: expected tensor names with file names");
    const std::string shard(value.text);
    check_basename(shard, name);
    if (index.shard_of.size() >= max_tensors)
      fail(Fault::file, name, ": expected at most ", max_tensors, " tensors, found more");
    index.shard_of.emplace(at[1], shard);
    ++index.shards[shard];
    if (index.shards.size() > max_shards)
      fail(Fault::file, name, ": expected at most ", max_shards, " shards, found more");
  });
  if (index.shard_of.empty())
    fail(Fault::file, name, ": expected a weight_map with tensors, found none");
  return index;
}

}  // namespace

TensorFile open_safetensors_index(const fs::path& path) {
  const Index index = read_index(path);
  TensorFile whole("safetensors", path.parent_path().string());
  for (const auto& [name, expected] : index.shards) {
    const TensorFile shard = open_safetensors(path.parent_path() / name);
    for (const StoredTensor& tensor : shard.tensors()) {
      const auto found = index.shard_of.find(tensor.name);
      if (found == index.shard_of.end() || found->second != name)
        fail(Fault::file, shard.path(), ": tensor ", printable(tensor.name),
             ": expected the index to place it in this shard, found that it does not");
    }
    if (shard.tensors().size() != expected)
      fail(Fault::file, shard.path(), ": expected the ", expected,
           " tensors that the index names, found ", shard.tensors().size());
    whole.merge(shard);
  }
  return whole;
}

}  // namespace deltasane
