#include "infer/byte_writer.h"
#include "infer/finite.h"
#include "infer/state_layout.h"

namespace deltasane {
namespace {

void check(const fs::path& path, const RecurrentState& state, const StateStamp& stamp) {
  payload_bytes(state.shape, path.string());
  check_sane(stamp.sane, path.string());
  if (state.position < 0)
    fail(Fault::argument, path, ": position: expected 0 or more, found ", state.position);
  if (stamp.last_token && *stamp.last_token < 0)
    fail(Fault::argument, path, ": last token: expected 0 or more, found ", *stamp.last_token);
  if (stamp.model_name.size() > max_model_name || stamp.creator.size() > max_creator)
    fail(Fault::argument, path, ": expected at most ", max_model_name, " bytes of model name and ",
         max_creator, " of creator, found ", stamp.model_name.size(), " and ",
         stamp.creator.size());
  if (const StateScan scan = scan_state(state); !scan.finite())
    fail(Fault::overflow, path,
         ": not written: ", overflow_message(*scan.not_finite, state.position));
}

std::vector<std::byte> header_of(const RecurrentState& state, const StateStamp& stamp,
                                 uint32_t length) {
  const StateShape& shape = state.shape;
  ByteWriter bytes;
  bytes.text(state_magic);
  bytes.number(state_version);
  bytes.number(length);
  bytes.number(stamp.model_identity);
  bytes.number(state.position);
  for (const int64_t size : {shape.layers, shape.channels, shape.heads, shape.head_size})
    bytes.number(size);
  bytes.number(uint32_t(stamp.sane.kind));
  bytes.number(uint32_t((stamp.last_token ? has_last_token : 0u) |
                        (stamp.sampler.empty() ? 0u : has_sampler)));
  bytes.number(stamp.sane.alpha);
  bytes.number(stamp.sane.chunk);
  bytes.number(stamp.last_token.value_or(0));
  for (const size_t size : {stamp.model_name.size(), stamp.creator.size(), stamp.sampler.size()})
    bytes.number(uint32_t(size));
  bytes.text(stamp.model_name);
  bytes.text(stamp.creator);
  bytes.put(stamp.sampler);
  bytes.pad(state_alignment);
  return bytes.take();
}

}  // namespace

void save_state(const fs::path& path, const RecurrentState& state, const StateStamp& stamp) {
  check(path, state, stamp);
  const uint64_t length = header_of(state, stamp, 0).size() - state_prefix;
  if (length > max_state_header)
    fail(Fault::argument, path, ": expected a header of at most ", max_state_header,
         " bytes, found ", length, " with a sampler state of ", stamp.sampler.size());
  StateHash hash;
  AtomicFile file(path);
  const auto write = [&](std::span<const std::byte> bytes) {
    hash.add(bytes);
    file.write(bytes);
  };
  write(header_of(state, stamp, uint32_t(length)));
  write(std::as_bytes(state.shift().span()));
  write(std::as_bytes(state.memory().span()));
  const uint64_t checksum = hash.digest();
  file.write(std::as_bytes(std::span(&checksum, 1)));
  file.commit();
}

}  // namespace deltasane
