// All that can be known to fail in a sweep, found before its first step: flags, devices, tokenizer,
// model, data, suites, memory, disk, and the folder.
#pragma once

#include "cli/sweep/sweep_options.h"

namespace deltasane::cli {

// Fails with what is wrong. Where no tokenizer was given, `options` gets the one that the training
// configuration names or that lies beside the model: what is made later has none beside it.
void check_sweep(SweepOptions& options);

// Makes the folder, or fails where it has a sweep with other settings.
void claim_sweep_folder(const SweepOptions& options);

}  // namespace deltasane::cli
