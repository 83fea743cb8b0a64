// Counter-based random numbers (Philox 4x32, 10 rounds; Salmon et al. 2011).
//
// A stream is named by (seed, stream). Its n-th block of four words is a pure function of the name
// and n, so a run is resumed exactly by saving one counter, and threads draw from streams of their
// own without shared state.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace deltasane {

std::array<uint32_t, 4> philox(uint64_t seed, uint64_t stream, uint64_t block);

// The stream of whatever is called so (FNV-1a).
uint64_t stream_named(std::string_view name);

class Random {
 public:
  explicit Random(uint64_t seed, uint64_t stream = 0, uint64_t word = 0)
      : seed_(seed), stream_(stream), word_(word) {}

  uint32_t word();  // uniform on 32 bits
  uint64_t word64() { return uint64_t{word()} << 32 | word(); }
  uint64_t below(uint64_t bound);  // uniform on 0 .. bound-1, without bias; bound > 0
  double uniform();                // [0, 1), 53 bits
  double uniform(double low, double high) { return low + (high - low) * uniform(); }
  double normal();  // mean 0, deviation 1; two uniforms per number

  uint64_t seed() const { return seed_; }
  uint64_t stream() const { return stream_; }
  uint64_t position() const { return word_; }  // pass it to the constructor to resume

 private:
  uint64_t seed_, stream_, word_;
  uint64_t cached_block_ = ~uint64_t{0};
  std::array<uint32_t, 4> cached_{};
};

}  // namespace deltasane
