// Coverage for libFuzzer in programs that GCC compiled. GCC calls a function in every basic block, where Clang counts in
// place; libFuzzer's own function of that name does nothing, so the linker wraps it.
#include <cstdint>

extern "C" void __sanitizer_cov_8bit_counters_init(uint8_t* begin, uint8_t* end);

namespace {

// Two blocks may share a counter: with 100,000 blocks a third of them do.
constexpr int index_bits = 18;
uint8_t counters[1 << index_bits];

struct Registration {
  Registration() { __sanitizer_cov_8bit_counters_init(counters, counters + sizeof counters); }
} registration;

}  // namespace

extern "C" __attribute__((no_sanitize_coverage, no_sanitize("address", "undefined"))) void
__wrap___sanitizer_cov_trace_pc() {
  const auto block = reinterpret_cast<uintptr_t>(__builtin_return_address(0));
  ++counters[(block * 0x9E3779B97F4A7C15u) >> (64 - index_bits)];
}

// Comparisons of floating-point numbers, which GCC reports and libFuzzer does not know.
extern "C" __attribute__((no_sanitize_coverage)) void __sanitizer_cov_trace_cmpf(float, float) {}
extern "C" __attribute__((no_sanitize_coverage)) void __sanitizer_cov_trace_cmpd(double, double) {}
