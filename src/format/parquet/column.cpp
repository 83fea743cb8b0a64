#include "format/parquet/column.h"

#include <bit>

#include "base/crc32/crc32.h"

namespace deltasane::parquet {
ColumnReader::ColumnReader(std::span<const std::byte> file, const ColumnChunk& chunk,
                           const Node& leaf, std::string title)
    : title_(std::move(title)),
      in_(file.first(chunk.begin + chunk.size), title_, chunk.begin),
      codec_(codec_of(chunk, title_)),
      type_(chunk.type),
      definition_(leaf.definition),
      repetition_(leaf.repetition),
      entries_left_(chunk.entries) {
  if (chunk.type != *leaf.element.type)
    reject("expected ", name_of(*leaf.element.type), ", as the schema says, found ",
           name_of(chunk.type));
}

std::optional<Levels> ColumnReader::peek() {
  if (peeked_) return peeked_;
  while (page_left_ == 0) {
    if (entries_left_ == 0) return std::nullopt;
    next_page();
  }
  Levels levels{definition_, repetition_};
  if (repetition_ > 0) {
    const uint32_t level = repetitions_.next();
    check_level(level, repetition_);
    levels.repetition = int(level);
  }
  if (definition_ > 0) {
    const uint32_t level = definitions_.next();
    check_level(level, definition_);
    levels.definition = int(level);
  }
  peeked_ = levels;
  return peeked_;
}

void ColumnReader::check_level(uint32_t level, int highest) const {
  if (level > uint32_t(highest)) reject("expected levels up to ", highest, ", found ", level);
}

void ColumnReader::skip() {
  require(peeked_ && peeked_->definition < definition_, "an entry without a value is skipped");
  peeked_.reset();
  --page_left_;
}

Value ColumnReader::take() {
  require(peeked_ && peeked_->definition == definition_, "an entry with a value is taken");
  peeked_.reset();
  --page_left_;
  return values_->next();
}

void ColumnReader::next_page() {
  const PageHeader header = read_page_header(in_);
  const std::span<const std::byte> packed = in_.take(header.packed_size, "page");
  if (header.checksum && *header.checksum != crc32(packed))
    in_.reject("expected a page with checksum ", *header.checksum, ", found a damaged one");
  switch (header.kind) {
    case PageKind::index:
      return;
    case PageKind::dictionary:
      return read_dictionary(header, packed);
    case PageKind::data:
    case PageKind::data_v2:
      break;
  }
  if (header.entries > entries_left_)
    in_.reject("expected at most ", entries_left_, " more values, found a page with ",
               header.entries);
  entries_left_ -= header.entries;
  page_left_ = header.entries;
  read_data(header, packed);
}

void ColumnReader::read_dictionary(const PageHeader& header, std::span<const std::byte> packed) {
  if (dictionary_ || values_) reject("expected one dictionary, before the values; found another");
  if (header.encoding != Encoding::plain && header.encoding != Encoding::plain_dictionary)
    reject("expected a dictionary in PLAIN, found ", name_of(header.encoding));
  dictionary_.emplace();
  const std::span<const std::byte> bytes =
      decompress_block(codec_, packed, header.size, dictionary_->bytes, title_);
  if (header.entries > 8 * bytes.size())  // a truth value takes a bit
    reject("expected a dictionary of at most ", 8 * bytes.size(), " values, found ",
           header.entries);
  PlainValues values(bytes, type_, title_);
  dictionary_->values.reserve(header.entries);
  for (uint64_t i = 0; i < header.entries; ++i) dictionary_->values.push_back(values.next());
}

RleReader ColumnReader::levels(ByteReader& in, int highest, Encoding encoding) {
  if (encoding != Encoding::rle)
    reject("expected levels in RLE, found ",
           encoding == Encoding::bit_packed ? "BIT_PACKED" : "another encoding");
  const auto size = in.number<uint32_t>("size of levels");
  return RleReader(in.take(size, "levels"), std::bit_width(unsigned(highest)), title_);
}

void ColumnReader::read_data(const PageHeader& header, std::span<const std::byte> packed) {
  std::span<const std::byte> bytes;
  if (header.kind == PageKind::data) {
    bytes = decompress_block(codec_, packed, header.size, room_, title_);
    ByteReader in(bytes, title_);
    if (repetition_ > 0) repetitions_ = levels(in, repetition_, header.repetition_encoding);
    if (definition_ > 0) definitions_ = levels(in, definition_, header.definition_encoding);
    bytes = bytes.subspan(in.offset());
  } else {
    ByteReader in(packed, title_);
    const auto repetitions = in.take(header.repetition_bytes, "levels");
    const auto definitions = in.take(header.definition_bytes, "levels");
    repetitions_ = RleReader(repetitions, std::bit_width(unsigned(repetition_)), title_);
    definitions_ = RleReader(definitions, std::bit_width(unsigned(definition_)), title_);
    if (header.size < in.offset())
      reject("expected a page of at least ", in.offset(), " bytes of levels, found ", header.size);
    const auto values = packed.subspan(in.offset());
    // A page without values may have no compressed bytes at all.
    const Codec codec = header.compressed && !values.empty() ? codec_ : Codec::none;
    bytes = decompress_block(codec, values, header.size - in.offset(), room_, title_);
  }
  values_.emplace(bytes, type_, header.encoding, header.entries,
                  dictionary_ ? &*dictionary_ : nullptr, title_);
}

}  // namespace deltasane::parquet
