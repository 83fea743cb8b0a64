// A recurrent state on disk, with all that is needed to resume from it. The format and its reasons:
// docs/state-file.md.
//
// A file is replaced as a whole: a crash leaves the one before or the one after. It is untrusted
// input: sizes are checked against the bytes that are there before memory is taken for them,
// and a checksum covers every byte. A state file holds finite numbers only; a state that has
// overflowed is neither written nor read.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/io/file.h"
#include "model/language_model.h"

namespace deltasane {

// What belongs to a state beside its numbers and its position.
struct StateStamp {
  uint64_t model_identity = 0;  // of the checkpoint (TensorFile::identity)
  std::string model_name;       // for people; at most 4096 bytes
  SaneUse sane;
  std::optional<int32_t> last_token;  // picked, but not yet read by the model
  std::vector<std::byte> sampler;     // SamplerState::save; empty: none
  std::string creator;                // program and version; at most 256 bytes
  friend bool operator==(const StateStamp&, const StateStamp&) = default;
};

struct SavedState {
  SequenceState state;
  StateStamp stamp;
};

void save_state(const fs::path& path, const SequenceState& state, const StateStamp& stamp);

// Any well-formed state, of whatever model. `name` is for messages.
SavedState read_state(std::span<const std::byte> bytes, const std::string& name);

enum class OtherSane { refuse, accept };

// The refusal of a state that was made with another SANE.
class OtherSaneError : public Error {
 public:
  explicit OtherSaneError(const std::string& message) : Error(Fault::file, message) {}
};

// The model that is to resume from the state, and how it runs.
struct StateExpectation {
  uint64_t model_identity = 0;
  std::string model_name;
  std::shared_ptr<const StateLayout> layout;
  SaneUse sane;
  OtherSane other_sane = OtherSane::refuse;
};

// Fails, and says what to do, where the state is another model's or was made with another SANE.
SavedState load_state(const fs::path& path, const StateExpectation& expected);
// The same for bytes that are not in a file. `name` is for messages.
SavedState load_state(std::span<const std::byte> bytes, const fs::path& name,
                      const StateExpectation& expected);

// The same for a model: what belongs to it is filled in and checked. A tensor file is taken for a
// tuned state, where the architecture has them: it begins at position 0, with nothing pending.
void save_state_of(const LanguageModel& model, const fs::path& path, const SequenceState& state,
                   const std::string& model_name, StateStamp stamp);
SavedState load_state_of(const LanguageModel& model, const fs::path& path,
                         const std::string& model_name, OtherSane other_sane);

}  // namespace deltasane
