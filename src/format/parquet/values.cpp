#include "format/parquet/values.h"

namespace deltasane::parquet {
namespace {

bool is_dictionary(Encoding encoding) {
  return encoding == Encoding::plain_dictionary || encoding == Encoding::rle_dictionary;
}

bool is_integer(PhysicalType type) {
  return type == PhysicalType::int32 || type == PhysicalType::int64;
}

}  // namespace

Value PlainValues::next() {
  switch (type_) {
    case PhysicalType::boolean:
      if (bits_left_ == 0) {
        bits_ = in_.number<uint8_t>("truth values");
        bits_left_ = 8;
      }
      --bits_left_;
      return {.integer = bits_ >> (7 - bits_left_) & 1, .text = {}};
    case PhysicalType::int32:
      return {.integer = in_.number<int32_t>("an int32"), .text = {}};
    case PhysicalType::int64:
      return {.integer = in_.number<int64_t>("an int64"), .text = {}};
    case PhysicalType::real32:
      return {.real = double(in_.number<float>("a float")), .text = {}};
    case PhysicalType::real64:
      return {.real = in_.number<double>("a double"), .text = {}};
    case PhysicalType::bytes: {
      const auto size = in_.number<uint32_t>("length of a text");
      return {.text = in_.text(size, "a text")};
    }
    case PhysicalType::int96:
    case PhysicalType::fixed_bytes:
      break;
  }
  in_.reject("expected a type that is read, found ", name_of(type_));
}

Value DeltaTexts::next() {
  const int64_t length = lengths_.next();
  if (length < 0) in_.reject("expected a length of at least 0, found ", length);
  return {.text = in_.text(uint64_t(length), "a text")};
}

Value DeltaPrefixes::next() {
  const int64_t prefix = prefixes_.next();
  const Value suffix = suffixes_.next();
  if (prefix < 0 || uint64_t(prefix) > text_.size())
    suffixes_.in().reject("expected to repeat at most ", text_.size(), " bytes, found ", prefix);
  text_.resize(size_t(prefix));
  text_ += suffix.text;
  return {.text = text_};
}

PageValues::Decoder PageValues::decoder(std::span<const std::byte> bytes, PhysicalType type,
                                        Encoding encoding, uint64_t entries,
                                        const Dictionary* dictionary, std::string_view name) {
  if (is_dictionary(encoding)) {
    if (!dictionary) fail(Fault::file, name, ": expected a dictionary before its use, found none");
    ByteReader in(bytes, name);
    const int width = bytes.empty() ? 0 : int(in.number<uint8_t>("width of indices"));
    if (width > 32) in.reject("expected indices of at most 32 bits, found ", width);
    return RleReader(bytes.subspan(in.offset()), width, name);
  }
  if (encoding == Encoding::plain) return PlainValues(bytes, type, name);
  if (encoding == Encoding::rle && type == PhysicalType::boolean) {
    ByteReader in(bytes, name);
    const auto size = in.number<uint32_t>("size of truth values");
    return RleReader(in.take(size, "truth values"), 1, name);
  }
  if (encoding == Encoding::delta_integers && is_integer(type))
    return DeltaReader(bytes, name, entries);
  if (encoding == Encoding::delta_lengths && type == PhysicalType::bytes)
    return DeltaTexts(bytes, name, entries);
  if (encoding == Encoding::delta_bytes && type == PhysicalType::bytes)
    return DeltaPrefixes(bytes, name, entries);
  fail(Fault::file, name, ": encoding of ", name_of(type),
       ": expected PLAIN, a dictionary or deltas, found ", name_of(encoding));
}

PageValues::PageValues(std::span<const std::byte> bytes, PhysicalType type, Encoding encoding,
                       uint64_t entries, const Dictionary* dictionary, std::string_view name)
    : type_(type),
      dictionary_(is_dictionary(encoding) ? dictionary : nullptr),
      name_(name),
      decoder_(decoder(bytes, type, encoding, entries, dictionary, name)) {}

Value PageValues::next() {
  if (auto* const plain = std::get_if<PlainValues>(&decoder_)) return plain->next();
  if (auto* const texts = std::get_if<DeltaTexts>(&decoder_)) return texts->next();
  if (auto* const prefixes = std::get_if<DeltaPrefixes>(&decoder_)) return prefixes->next();
  if (auto* const integers = std::get_if<DeltaReader>(&decoder_)) {
    const int64_t value = integers->next();
    return {.integer = type_ == PhysicalType::int32 ? int32_t(value) : value, .text = {}};
  }
  const uint32_t number = std::get<RleReader>(decoder_).next();
  if (!dictionary_) return {.integer = int64_t(number), .text = {}};
  if (number >= dictionary_->values.size())
    fail(Fault::file, name_, ": expected an index below ", dictionary_->values.size(),
         ", the size of the dictionary, found ", number);
  return dictionary_->values[number];
}

}  // namespace deltasane::parquet
