// The beginning of a stream as state tuning leaves it: one matrix per head, learned, in a file of
// tensors `blocks.I.att.time_state` (head, value, key), usually a .pth. For RWKV-7 the matrices lie
// as ours do. There are no shifts: they begin at zero, and so does the position.
#pragma once

#include "base/io/file.h"
#include "model/state/sequence_state.h"

namespace deltasane {

SequenceState read_tuned_state(const fs::path& path, std::shared_ptr<const StateLayout> layout);

}  // namespace deltasane
