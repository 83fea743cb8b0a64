#include "kernel/sampler/sampler_bench.h"

#include "base/random.h"
#include "kernel/sampler/sampler.h"

namespace deltasane {

Timing measure_sampler(const SamplerSettings& settings, int64_t vocabulary, double deviation,
                       double seconds) {
  constexpr int64_t variety = 16;  // different logits, so that no branch is always predicted
  Random random(1);
  std::vector<float> logits(size_t(vocabulary * variety));
  for (float& logit : logits) logit = float(deviation * random.normal());
  Sampler sampler(settings);
  const auto sample = [&] {
    const auto from = size_t(vocabulary * int64_t(sampler.state().draws % variety));
    sampler.next(std::span(logits).subspan(from, size_t(vocabulary)));
  };
  return time_repeated(sample, seconds, 200);
}

}  // namespace deltasane
