#include "infer/state_file.h"

#include "base/printable.h"

namespace deltasane {
namespace {

[[noreturn]] void refuse(const fs::path& path, std::string_view what, std::string_view expected,
                         std::string_view found, std::string_view remedy) {
  fail(Fault::file, path, ": ", what, ": expected ", expected, ", found ", found, "; ", remedy);
}

std::string model_text(uint64_t identity, std::string_view name) {
  return cat(printable(name), " (identity ", identity, ")");
}

std::string shape_text(const StateShape& shape) {
  return cat(shape.layers, " layers of ", shape.channels, " channels and ", shape.heads,
             " heads of ", shape.head_size);
}

}  // namespace

SavedState load_state(const fs::path& path, const StateExpectation& expected) {
  const MappedFile file(path);
  SavedState saved = read_state(file.bytes(), path.string());
  const StateStamp& stamp = saved.stamp;
  if (stamp.model_identity != expected.model_identity)
    refuse(path, "model", model_text(expected.model_identity, expected.model_name),
           model_text(stamp.model_identity, stamp.model_name),
           "a state belongs to the model that made it: load that model, or begin a new state");
  if (saved.state.shape != expected.shape)
    refuse(path, "shape", shape_text(expected.shape), shape_text(saved.state.shape),
           "load the model that made the state, or begin a new state");
  if (stamp.sane != expected.sane && expected.other_sane == OtherSane::refuse)
    refuse(path, "SANE", to_string(expected.sane), to_string(stamp.sane),
           "run the model as the state was made, or accept another SANE explicitly "
           "(--accept-other-sane)");
  return saved;
}

}  // namespace deltasane
