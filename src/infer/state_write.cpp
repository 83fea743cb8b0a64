#include "base/hash/xxh3.h"
#include "base/io/byte_writer.h"
#include "base/printable.h"
#include "infer/state_layout.h"
#include "infer/state_scan.h"

namespace deltasane {
namespace {

std::vector<FilePart> parts_of(const SequenceState& state, const fs::path& path) {
  std::vector<FilePart> parts;
  for (const StatePart& part : state.layout().parts()) {
    if (!is_part_name(part.name))
      fail(Fault::argument, path, ": part of a state: expected a name of 1 to ", max_part_name,
           " bytes of printable ASCII, found ", part.name.size(), ": ", printable(part.name));
    const auto floats = int64_t(state.of(part).size());
    parts.push_back({part.name, part.kind, part.layer, part.shape, floats / part.floats()});
  }
  return parts;
}

void check(const fs::path& path, const SequenceState& state, const StateStamp& stamp) {
  payload_bytes(parts_of(state, path), path.string());
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

std::vector<std::byte> header_of(const SequenceState& state, std::span<const FilePart> parts,
                                 const StateStamp& stamp, uint32_t length) {
  ByteWriter bytes;
  bytes.text(state_magic);
  bytes.number(state_version);
  bytes.number(length);
  bytes.number(stamp.model_identity);
  bytes.number(state.position);
  bytes.number(uint32_t(parts.size()));
  for (const FilePart& part : parts) {
    bytes.number(uint32_t(part.kind));
    bytes.number(uint32_t(part.name.size()));
    bytes.number(uint32_t(part.shape.rank()));
    bytes.number(part.layer);
    for (const int64_t size : part.shape) bytes.number(size);
    bytes.number(part.rows);
    bytes.text(part.name);
  }
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

void save_state(const fs::path& path, const SequenceState& state, const StateStamp& stamp) {
  check(path, state, stamp);
  const std::vector<FilePart> parts = parts_of(state, path);
  const uint64_t length = header_of(state, parts, stamp, 0).size() - state_prefix;
  if (length > max_state_header)
    fail(Fault::argument, path, ": expected a header of at most ", max_state_header,
         " bytes, found ", length, " with a sampler state of ", stamp.sampler.size());
  Xxh3 hash;
  AtomicFile file(path);
  const auto write = [&](std::span<const std::byte> bytes) {
    hash.add(bytes);
    file.write(bytes);
  };
  write(header_of(state, parts, stamp, uint32_t(length)));
  write(std::as_bytes(state.fixed()));
  for (int64_t i = 0; i < state.layout().caches(); ++i) write(std::as_bytes(state.cache(i)));
  const uint64_t checksum = hash.digest();
  file.write(std::as_bytes(std::span(&checksum, 1)));
  file.commit();
}

}  // namespace deltasane
