// One of the fuzzers: DELTASANE_FUZZ_TARGET is its function.
#include "base/error.h"
#include "fuzz/targets.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    deltasane::fuzz::DELTASANE_FUZZ_TARGET(std::as_bytes(std::span(data, size)));
  } catch (const deltasane::Error&) {
  }
  return 0;
}
