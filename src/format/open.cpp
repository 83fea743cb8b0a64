#include "format/open.h"

#include <algorithm>

#include "base/printable.h"
#include "format/contents/contents.h"
#include "format/gguf/gguf.h"
#include "format/json_walk.h"
#include "format/pth/pth.h"
#include "format/rwkvcpp.h"
#include "format/safetensors/safetensors.h"

namespace deltasane {
namespace {

std::string as_text(const JsonValue& value) {
  using Kind = JsonValue::Kind;
  switch (value.kind) {
    case Kind::text:
      return std::string(value.text);
    case Kind::natural:
      return cat(value.natural);
    case Kind::negative:
      return cat(value.negative);
    case Kind::real:
      return cat(value.real);
    case Kind::truth:
      return value.natural ? "true" : "false";
    default:
      return "null";
  }
}

// Scalars are metadata, and so is the first element of an array; arrays of scalars are lists. What several
// objects of an array have is no number, truth or name that a reader could take for that of all.
void read_config(const fs::path& path, TensorFile& file) {
  walk_json_file(path, {}, [&](const std::vector<std::string>& at, const JsonValue& value) {
    using Kind = JsonValue::Kind;
    if (at.empty() || value.kind == Kind::object || value.kind == Kind::end) return;
    std::string key = "config";
    for (const std::string& part : at) key += "." + part;
    if (value.kind == Kind::array) {
      const auto [list, is_first] = file.lists().try_emplace(key);
      if (!is_first) list->second = {"several lists"};
      return;
    }
    const auto list = file.lists().find(key);
    if (list != file.lists().end()) list->second.push_back(as_text(value));
    const auto [known, is_first] = file.metadata().emplace(key, as_text(value));
    if (!is_first && list == file.lists().end()) known->second = "several values";
  });
}

// The one file in a folder that is named as a model is.
fs::path only_model_in(const fs::path& folder) {
  std::vector<std::string> found;
  for (const auto& entry : fs::directory_iterator(folder))
    for (const char* const kind : {".safetensors", ".pth", ".gguf", ".bin"})
      if (entry.path().extension() == kind) found.push_back(entry.path().filename().string());
  if (found.size() == 1) return folder / found[0];
  std::ranges::sort(found);
  std::string list;
  for (const std::string& name : found) list += cat(list.empty() ? "" : ", ", printable(name));
  fail(Fault::file, folder, ": expected model.safetensors, model.safetensors.index.json or one model ",
       "file in the folder, found ", found.empty() ? "none" : list);
}

TensorFile open_any(const fs::path& path);

TensorFile open_folder(const fs::path& path) {
  const fs::path index = path / "model.safetensors.index.json";
  fs::path single = path / "model.safetensors";
  if (!fs::exists(index) && !fs::exists(single)) {
    single = only_model_in(path);
    if (single.extension() != ".safetensors") return open_any(single);
  }
  const TensorFile weights =  // of both the single file, as transformers does
      fs::exists(single) ? open_safetensors(single) : open_safetensors_index(index);
  TensorFile file("hugging face folder", path.string());
  file.merge(weights);
  if (fs::exists(path / "config.json")) read_config(path / "config.json", file);
  return file;
}

std::string first_bytes(const fs::path& path) {
  const MappedFile file(path);
  const size_t count = std::min<size_t>(file.bytes().size(), 16);
  return {reinterpret_cast<const char*>(file.bytes().data()), count};
}

// Null: none is known. Checksums of tensors are not yet verified.
TensorFile (*reader_of(std::string_view start))(const fs::path&) {
  if (start.starts_with("GGUF")) return open_gguf;
  if (start.starts_with("PK")) return open_pth_unverified;
  if (start.starts_with("fmgg")) return open_rwkvcpp;
  if (start.size() > 8 && start[8] == '{') return open_safetensors;
  return nullptr;
}

TensorFile open_any(const fs::path& path) {
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) return open_folder(path);
  const std::string start = first_bytes(path);
  if (const auto open = reader_of(start)) return open(path);
  if (start.starts_with("\x93NUMPY"))
    fail(Fault::file, path, ": expected a tensor file, found one NumPy array");
  if (start.starts_with("\x80\x02\x8a\x0a"))
    fail(Fault::file, path, ": expected a .pth of PyTorch 1.6 or later, found the older format; ",
         "load and save it again with PyTorch");
  fail(Fault::file, path, ": expected safetensors, .pth, GGUF or rwkv.cpp's .bin, found a file ",
       "that begins with ", printable(start));
}

}  // namespace

TensorFile open_tensor_file(const fs::path& path, NonFiniteWeights non_finite,
                            Checksums checksums) {
  TensorFile file = open_any(path);
  check_contents(file, checksums, non_finite);
  return file;
}

bool looks_like_tensor_file(const fs::path& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored) || reader_of(first_bytes(path));
}

}  // namespace deltasane
