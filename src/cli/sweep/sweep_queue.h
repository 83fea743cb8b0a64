// The alphas of a sweep as a queue that devices work off, one alpha on a device at a time.
//
// An alpha that somebody works on is locked by a file, which is given back when its process ends.
// So several processes may work off one queue, and a sweep that was killed continues where it was.
#pragma once

#include <functional>

#include "cli/sweep/sweep_options.h"

namespace deltasane::cli {

// Returns when nothing is left that nobody works on. The first failure lets what runs end, takes
// nothing more, and fails. With several devices each alpha has a log in its folder.
void work_off(const SweepOptions& options);

bool all_finished(const SweepOptions& options);

}  // namespace deltasane::cli
