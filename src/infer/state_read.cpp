#include <algorithm>
#include <cstring>

#include "base/checked.h"
#include "format/byte_reader.h"
#include "infer/finite.h"
#include "infer/state_layout.h"

namespace deltasane {
namespace {

// Magic, version and sizes: afterwards the header lies in the file.
uint64_t read_prefix(ByteReader& reader) {
  if (reader.remaining() < state_magic.size() ||
      reader.text(state_magic.size(), "magic") != state_magic)
    fail(Fault::file, reader.name(), ": at byte 0: expected a state file, found another kind");
  if (const auto version = reader.number<uint32_t>("version"); version != state_version)
    fail(Fault::file, reader.name(), ": at byte 8: expected version ", state_version,
         " of a state file, found ", version,
         version > state_version ? "; a later version of this program reads it" : "");
  const uint64_t length = reader.number<uint32_t>("header length");
  if (length > max_state_header || length > reader.remaining())
    fail(Fault::file, reader.name(), ": at byte 12: expected a header of at most ",
         std::min(max_state_header, reader.remaining()), " bytes, found ", length);
  return length;
}

void verify(std::span<const std::byte> bytes, uint64_t expected_size, const std::string& name) {
  if (bytes.size() != expected_size)
    fail(Fault::file, name, ": expected ", expected_size, " bytes, found ", bytes.size(),
         "; the file is damaged");
  const size_t covered = bytes.size() - state_checksum;
  uint64_t stated;
  std::memcpy(&stated, bytes.data() + covered, sizeof stated);
  StateHash hash;
  hash.add(bytes.first(covered));
  if (hash.digest() != stated)
    fail(Fault::file, name, ": expected the checksum ", stated, ", found ", hash.digest(),
         "; the file is damaged");
}

SaneUse read_sane(uint32_t kind, double alpha, int64_t chunk, const std::string& name) {
  if (kind > uint32_t(SaneKind::run_time))
    fail(Fault::file, name, ": SANE: expected a kind of 0, 1 or 2, found ", kind);
  const SaneUse sane{SaneKind(kind), alpha, chunk};
  check_sane(sane, name);
  return sane;
}

// The rest of the header, from the SANE kind on.
void read_stamp(ByteReader& header, StateStamp& stamp, const std::string& name) {
  const auto kind = header.number<uint32_t>("SANE kind");
  const auto flags = header.number<uint32_t>("flags");
  const auto alpha = header.number<double>("SANE alpha");
  stamp.sane = read_sane(kind, alpha, header.number<int64_t>("SANE chunk"), name);
  const auto last_token = header.number<int32_t>("last token");
  const uint64_t name_size = header.number<uint32_t>("size of the model name");
  const uint64_t creator_size = header.number<uint32_t>("size of the creator");
  const uint64_t sampler_size = header.number<uint32_t>("size of the sampler state");
  if (flags > (has_last_token | has_sampler))
    header.refuse("flags: expected 0 to 3, found ", flags);
  if (last_token < 0 || (!(flags & has_last_token) && last_token != 0))
    header.refuse("last token: expected 0 or more, and 0 for none, found ", last_token);
  if (name_size > max_model_name || creator_size > max_creator)
    header.refuse("expected at most ", max_model_name, " bytes of model name and ", max_creator,
                  " of creator, found ", name_size, " and ", creator_size);
  if ((sampler_size != 0) != ((flags & has_sampler) != 0))
    header.refuse("sampler state: expected bytes if flag 2 is set, found ", sampler_size);
  if (flags & has_last_token) stamp.last_token = last_token;
  stamp.model_name = header.text(name_size, "model name");
  stamp.creator = header.text(creator_size, "creator");
  const auto sampler = header.take(sampler_size, "sampler state");
  stamp.sampler.assign(sampler.begin(), sampler.end());
}

void read_padding(ByteReader& header) {
  const auto padding = header.take(header.remaining(), "padding");
  if (padding.size() >= state_alignment || header.offset() % state_alignment != 0 ||
      std::ranges::any_of(padding, [](std::byte byte) { return byte != std::byte{0}; }))
    header.refuse("expected zeros up to the next multiple of ", state_alignment, ", found ",
                  padding.size(), " bytes that are not");
}

void read_floats(ByteReader& reader, Tensor<float>& to) {
  const auto bytes = reader.take(to.span().size_bytes(), "numbers");
  std::memcpy(to.data(), bytes.data(), bytes.size());
}

}  // namespace

SavedState read_state(std::span<const std::byte> bytes, const std::string& name) {
  ByteReader reader(bytes, name);
  const uint64_t header_size = state_prefix + read_prefix(reader);
  ByteReader header(bytes.first(header_size), name, state_prefix);
  SavedState saved;
  StateShape shape;
  saved.stamp.model_identity = header.number<uint64_t>("model identity");
  const auto position = header.number<int64_t>("position");
  for (int64_t* const size : {&shape.layers, &shape.channels, &shape.heads, &shape.head_size})
    *size = header.number<int64_t>("shape");
  // With the shape, the size of the file is known, and so whether it is whole.
  verify(bytes, checked_add(header_size + state_checksum, payload_bytes(shape, name), name), name);
  if (position < 0) header.refuse("position: expected 0 or more, found ", position);
  read_stamp(header, saved.stamp, name);
  read_padding(header);

  saved.state = RecurrentState(shape);
  saved.state.position = position;
  ByteReader numbers(bytes, name, header_size);
  read_floats(numbers, saved.state.mutable_shift());
  read_floats(numbers, saved.state.mutable_memory());
  if (const StateScan scan = scan_state(saved.state); !scan.finite())
    fail(Fault::overflow, name, ": ", overflow_message(*scan.not_finite, position));
  return saved;
}

}  // namespace deltasane
