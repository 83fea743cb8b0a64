#include <algorithm>
#include <cstring>

#include "base/hash/xxh3.h"
#include "base/io/byte_reader.h"
#include "base/checked.h"
#include "base/printable.h"
#include "infer/state_layout.h"
#include "infer/state_scan.h"

namespace deltasane {
namespace {

// Magic, version and sizes: afterwards the header lies in the file.
struct Prefix {
  uint32_t version;
  uint64_t length;  // of the header behind it
};
Prefix read_prefix(ByteReader& reader) {
  if (reader.remaining() < state_magic.size() ||
      reader.text(state_magic.size(), "magic") != state_magic)
    fail(Fault::file, reader.name(), ": at byte 0: expected a state file, found another kind");
  const auto version = reader.number<uint32_t>("version");
  if (version != state_version && version != uniform_state_version)
    fail(Fault::file, reader.name(), ": at byte 8: expected version ", uniform_state_version, " or ",
         state_version, " of a state file, found ", version,
         version > state_version ? "; a later version of this program reads it" : "");
  const uint64_t length = reader.number<uint32_t>("header length");
  if (length > max_state_header || length > reader.remaining())
    fail(Fault::file, reader.name(), ": at byte 12: expected a header of at most ",
         std::min(max_state_header, reader.remaining()), " bytes, found ", length);
  return {version, length};
}

void verify_checksum(std::span<const std::byte> bytes, const std::string& name) {
  const size_t covered = bytes.size() - state_checksum;
  uint64_t stated;
  std::memcpy(&stated, bytes.data() + covered, sizeof stated);
  Xxh3 hash;
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
    header.reject("flags: expected 0 to 3, found ", flags);
  if (last_token < 0 || (!(flags & has_last_token) && last_token != 0))
    header.reject("last token: expected 0 or more, and 0 for none, found ", last_token);
  if (name_size > max_model_name || creator_size > max_creator)
    header.reject("expected at most ", max_model_name, " bytes of model name and ", max_creator,
                  " of creator, found ", name_size, " and ", creator_size);
  if ((sampler_size != 0) != ((flags & has_sampler) != 0))
    header.reject("sampler state: expected bytes if flag 2 is set, found ", sampler_size);
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
    header.reject("expected zeros up to the next multiple of ", state_alignment, ", found ",
                  padding.size(), " bytes that are not");
}

void read_floats(ByteReader& reader, std::span<float> to) {
  const auto bytes = reader.take(to.size_bytes(), "numbers");
  if (!bytes.empty()) std::memcpy(to.data(), bytes.data(), bytes.size());
}

// Of a file whose numbers take so many bytes.
void expect_size(std::span<const std::byte> bytes, uint64_t header_size, uint64_t payload,
                 const std::string& name) {
  const uint64_t expected = checked_add(header_size + state_checksum, payload, name);
  if (bytes.size() != expected)
    fail(Fault::file, name, ": expected ", expected, " bytes, found ", bytes.size(),
         "; the file is damaged");
}

// Version 1: four sizes, all layers alike. Parts are made of them where the file has the numbers.
std::vector<FilePart> read_uniform_parts(ByteReader& header, std::span<const std::byte> bytes,
                                         const std::string& name) {
  int64_t sizes[4];
  for (int64_t& size : sizes) size = header.number<int64_t>("shape");
  const auto [layers, channels, heads, head_size] = sizes;
  for (const int64_t size : sizes)
    if (size < 1 || size > max_state_size)
      fail(Fault::file, name, ": state shape: expected sizes from 1 to ", max_state_size,
           ", found layers ", layers, ", channels ", channels, ", heads ", heads, ", head size ",
           head_size);
  const int64_t shifts[] = {layers, 2, channels}, memory[] = {layers, heads, head_size, head_size};
  const uint64_t floats =
      checked_add(checked_product(shifts, name), checked_product(memory, name), name);
  expect_size(bytes, header.offset() + header.remaining(), checked_multiply(sizeof(float), floats, name), name);
  if (layers > int64_t(max_parts) / 3)
    header.reject("expected at most ", max_parts / 3, " layers, found ", layers);
  const StateLayout layout = shifts_and_square_heads(layers, channels, heads, head_size);
  std::vector<FilePart> parts;
  for (const StatePart& part : layout.parts())
    parts.push_back({part.name, part.kind, part.layer, part.shape, 1});
  return parts;
}

std::vector<FilePart> read_parts(ByteReader& header) {
  const auto count = header.number<uint32_t>("number of parts");
  if (count < 1 || count > max_parts)
    header.reject("expected 1 to ", max_parts, " parts, found ", count);
  std::vector<FilePart> parts;
  for (uint32_t i = 0; i < count; ++i) {
    FilePart part;
    part.kind = StateKind(header.number<uint32_t>("kind of a part"));
    const auto name_size = header.number<uint32_t>("size of a part's name");
    const auto rank = header.number<uint32_t>("dimensions of a part");
    if (name_size < 1 || name_size > max_part_name || rank > uint32_t(max_rank))
      header.reject("part of a state: expected a name of 1 to ", max_part_name,
                    " bytes and at most ", max_rank, " dimensions, found ", name_size, " and ",
                    rank);
    part.layer = header.number<int64_t>("layer of a part");
    for (uint32_t d = 0; d < rank; ++d) part.shape.push_back(header.number<int64_t>("size"));
    part.rows = header.number<int64_t>("rows of a part");
    part.name = header.text(name_size, "name of a part");
    if (!is_part_name(part.name))
      header.reject("name of a part: expected printable ASCII, found ", printable(part.name));
    parts.push_back(std::move(part));
  }
  return parts;
}

}  // namespace

SavedState read_state(std::span<const std::byte> bytes, const std::string& name) {
  ByteReader reader(bytes, name);
  const Prefix prefix = read_prefix(reader);
  const uint64_t header_size = state_prefix + prefix.length;
  ByteReader header(bytes.first(header_size), name, state_prefix);
  SavedState saved;
  saved.stamp.model_identity = header.number<uint64_t>("model identity");
  const auto position = header.number<int64_t>("position");
  const std::vector<FilePart> parts = prefix.version == uniform_state_version
                                          ? read_uniform_parts(header, bytes, name)
                                          : read_parts(header);
  // With the parts, the size of the file is known, and so whether it is whole.
  expect_size(bytes, header_size, payload_bytes(parts, name), name);
  verify_checksum(bytes, name);
  if (position < 0) header.reject("position: expected 0 or more, found ", position);
  read_stamp(header, saved.stamp, name);
  read_padding(header);

  auto layout = std::make_shared<StateLayout>();
  for (const FilePart& part : parts) layout->add(part.name, part.kind, part.layer, part.shape);
  saved.state = SequenceState(std::move(layout));
  saved.state.position = position;
  ByteReader numbers(bytes, name, header_size);
  read_floats(numbers, saved.state.mutable_fixed());
  for (const StatePart& part : saved.state.layout().parts())
    if (part.grows()) {
      std::vector<float>& cache = saved.state.mutable_cache(part.offset);
      cache.resize(size_t(parts[size_t(&part - saved.state.layout().parts().data())].rows *
                          part.floats()));
      read_floats(numbers, cache);
    }
  if (const StateScan scan = scan_state(saved.state); !scan.finite())
    fail(Fault::overflow, name, ": ", overflow_message(*scan.not_finite, position));
  return saved;
}

}  // namespace deltasane
