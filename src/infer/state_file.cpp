#include "infer/state_file.h"

#include "base/hexadecimal.h"
#include "base/printable.h"
#include "format/open.h"
#include "model/registry.h"

namespace deltasane {
namespace {

[[noreturn]] void refuse(const fs::path& path, std::string_view what, std::string_view expected,
                         std::string_view found, std::string_view remedy) {
  fail(Fault::file, path, ": ", what, ": expected ", expected, ", found ", found, "; ", remedy);
}

std::string model_text(uint64_t identity, std::string_view name) {
  return cat(printable(name), " (identity ", hexadecimal(identity), ")");
}

}  // namespace

SavedState load_state(const fs::path& path, const StateExpectation& expected) {
  return load_state(MappedFile(path).bytes(), path, expected);
}

SavedState load_state(std::span<const std::byte> bytes, const fs::path& path,
                      const StateExpectation& expected) {
  SavedState saved = read_state(bytes, path.string());
  const StateStamp& stamp = saved.stamp;
  if (stamp.model_identity != expected.model_identity)
    refuse(path, "model", model_text(expected.model_identity, expected.model_name),
           model_text(stamp.model_identity, stamp.model_name),
           "a state belongs to the model that made it: load that model, or begin a new state");
  if (saved.state.layout() != *expected.layout)
    fail(Fault::file, path, ": state: ", expected.layout->difference(saved.state.layout()),
         "; load the model that made the state, or begin a new state");
  if (stamp.sane != expected.sane && expected.other_sane == OtherSane::refuse)
    throw OtherSaneError(cat(path, ": SANE: expected ", to_string(expected.sane), ", found ",
                             to_string(stamp.sane),
                             "; run the model as the state was made, or accept another SANE"));
  return saved;
}

void save_state_of(const LanguageModel& model, const fs::path& path, const SequenceState& state,
                   const std::string& model_name, StateStamp stamp) {
  stamp.model_identity = model.identity();
  stamp.model_name = model_name;
  stamp.sane = model.sane();
  save_state(path, state, stamp);
}

SavedState load_state_of(const LanguageModel& model, const fs::path& path,
                         const std::string& model_name, OtherSane other_sane) {
  if (const Architecture& own = architecture_named(model.description().architecture);
      own.read_tuned_state && looks_like_tensor_file(path))
    return {own.read_tuned_state(path, model.state_layout()), {}};
  return load_state(path,
                    {model.identity(), model_name, model.state_layout(), model.sane(), other_sane});
}

}  // namespace deltasane
