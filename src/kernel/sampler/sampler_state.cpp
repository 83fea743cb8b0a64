#include "kernel/sampler/sampler_state.h"

#include <algorithm>
#include <cmath>

#include "base/io/byte_reader.h"
#include "base/io/byte_writer.h"

namespace deltasane {
namespace {

constexpr std::string_view mark = "smp1";
constexpr uint64_t entry_size = sizeof(uint32_t) + sizeof(double);

}  // namespace

void SamplerState::count(int32_t token, double decay) {
  // Counts that have decayed to nothing become zero before they become subnormal, which is slow.
  constexpr double least = 1e-30;
  for (TokenCount& entry : counts) {
    entry.count *= decay;
    if (entry.count < least) entry.count = 0;
  }
  const auto place = std::ranges::lower_bound(counts, token, {}, &TokenCount::token);
  if (place != counts.end() && place->token == token)
    place->count += 1;
  else
    counts.insert(place, {token, 1});
}

std::vector<std::byte> SamplerState::save() const {
  ByteWriter bytes;
  bytes.text(mark);
  for (const uint64_t number : {seed, stream, draws}) bytes.number(number);
  bytes.number(uint32_t(counts.size()));
  for (const TokenCount& entry : counts) {
    bytes.number(uint32_t(entry.token));
    bytes.number(entry.count);
  }
  return bytes.take();
}

SamplerState SamplerState::load(std::span<const std::byte> bytes) {
  ByteReader reader(bytes, "sampler state");
  if (reader.text(mark.size(), "mark") != mark)
    fail(Fault::file, "sampler state: at byte 0: expected it to begin with '", mark, "'");
  SamplerState state;
  state.seed = reader.number<uint64_t>("seed");
  state.stream = reader.number<uint64_t>("stream");
  state.draws = reader.number<uint64_t>("draws");
  const uint64_t entries = reader.number<uint32_t>("number of counts");
  if (reader.remaining() != entries * entry_size)
    reader.reject("expected ", entries * entry_size, " bytes of counts, found ",
                  reader.remaining());
  state.counts.reserve(entries);
  for (int64_t before = -1; state.counts.size() < entries; before = state.counts.back().token) {
    const int64_t token = reader.number<uint32_t>("token");
    const double count = reader.number<double>("count");
    if (token <= before || token > INT32_MAX || !std::isfinite(count) || count < 0)
      reader.reject("expected ascending tokens with counts of 0 or more, found token ", token,
                    " after ", before, " with count ", count);
    state.counts.push_back({int32_t(token), count});
  }
  return state;
}

}  // namespace deltasane
