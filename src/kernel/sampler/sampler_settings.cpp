#include "kernel/sampler/sampler_settings.h"

#include "base/error.h"

namespace deltasane {
namespace {

// Written so that NaN fails.
void expect_between(std::string_view name, double value, double low, double high) {
  if (!(value >= low && value <= high))
    fail(Fault::usage, name, ": expected a number from ", low, " to ", high, ", found ", value);
}

}  // namespace

void validate(const SamplerSettings& settings) {
  if (settings.temperature != 0 && !(settings.temperature >= 0.001 && settings.temperature <= 1000))
    fail(Fault::usage, "temperature: expected 0 (the most probable token) or a number from 0.001 ",
         "to 1000, found ", settings.temperature);
  expect_between("top-p", settings.top_p, 0, 1);
  if (settings.top_k < 0)
    fail(Fault::usage, "top-k: expected 0 (off) or more, found ", settings.top_k);
  expect_between("presence penalty", settings.presence_penalty, -1000, 1000);
  expect_between("frequency penalty", settings.frequency_penalty, -1000, 1000);
  expect_between("penalty decay", settings.penalty_decay, 0, 1);
}

}  // namespace deltasane
