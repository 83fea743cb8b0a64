#include "format/parquet/thrift.h"

#include <limits>

namespace deltasane::parquet {
namespace {

constexpr int max_structures = 24;

}  // namespace

void ThriftReader::enter() {
  if (++depth_ > max_structures)
    in_.reject("metadata: expected at most ", max_structures, " nested structures, found more");
}

void ThriftReader::expect(Type type, std::string_view what) {
  if (current_ != type)
    in_.reject("metadata: expected ", what, ", found a value of type ", int(current_));
  read_ = true;
}

uint64_t ThriftReader::varint() {
  uint64_t value = 0;
  for (int shift = 0; shift < 64; shift += 7) {
    const auto byte = in_.number<uint8_t>("metadata");
    value |= uint64_t(byte & 127) << shift;
    if (byte < 128) return value;
  }
  in_.reject("metadata: expected a number of at most 10 bytes, found a longer one");
}

int64_t ThriftReader::zigzag() {
  const uint64_t value = varint();
  return int64_t(value >> 1) ^ -int64_t(value & 1);
}

ThriftReader::FieldHead ThriftReader::field_head(int16_t before) {
  const auto head = in_.number<uint8_t>("metadata");
  const int type = head & 15;
  if (type == 0) return {Type::stop, 0};
  if (type > int(Type::structure))
    in_.reject("metadata: expected a field of a known type, found type ", type);
  const int64_t number = head >> 4 ? before + (head >> 4) : zigzag();
  if (number < 1 || number > std::numeric_limits<int16_t>::max())
    in_.reject("metadata: expected the number of a field, found ", number);
  return {Type(type), int16_t(number)};
}

ThriftReader::ListHead ThriftReader::list_head() {
  const auto head = in_.number<uint8_t>("metadata");
  const int type = head & 15;
  if (type == 0 || type > int(Type::structure))
    in_.reject("metadata: expected a list of a known type, found type ", type);
  const uint64_t size = head >> 4 == 15 ? varint() : uint64_t(head >> 4);
  if (size > in_.remaining())  // an element has a byte at least
    in_.reject("metadata: expected a list of at most ", in_.remaining(), " elements, found ", size);
  return {Type(type), size};
}

int64_t ThriftReader::integer() {
  switch (current_) {
    case Type::i8:
      read_ = true;
      return in_.number<int8_t>("metadata");
    case Type::i16:
    case Type::i32:
    case Type::i64:
      read_ = true;
      return zigzag();
    default:
      in_.reject("metadata: expected an integer, found a value of type ", int(current_));
  }
}

int32_t ThriftReader::integer32() {
  const int64_t value = integer();
  if (value != int32_t(value))
    in_.reject("metadata: expected an integer of 32 bits, found ", value);
  return int32_t(value);
}

bool ThriftReader::boolean() {
  if (current_ != Type::yes && current_ != Type::no)
    in_.reject("metadata: expected a truth value, found a value of type ", int(current_));
  read_ = true;
  return current_ == Type::yes;
}

std::string_view ThriftReader::text() {
  expect(Type::text, "a text");
  return in_.text(varint(), "text in the metadata");
}

void ThriftReader::skip_elements(Type type, uint64_t count, int depth) {
  for (uint64_t i = 0; i < count; ++i) {
    if (type == Type::yes || type == Type::no)
      in_.take(1, "metadata");  // in a list a truth value has a byte of its own
    else
      skip(type, depth);
  }
}

void ThriftReader::skip(Type type, int depth) {
  if (depth > max_structures)
    in_.reject("metadata: expected at most ", max_structures, " nested structures, found more");
  switch (type) {
    case Type::stop:
    case Type::yes:
    case Type::no:
      return;
    case Type::i8:
      in_.take(1, "metadata");
      return;
    case Type::i16:
    case Type::i32:
    case Type::i64:
      varint();
      return;
    case Type::real:
      in_.take(8, "metadata");
      return;
    case Type::text:
      in_.take(varint(), "text in the metadata");
      return;
    case Type::list:
    case Type::set: {
      const ListHead head = list_head();
      return skip_elements(head.element, head.size, depth + 1);
    }
    case Type::map: {
      const uint64_t size = varint();
      if (size == 0) return;
      const auto types = in_.number<uint8_t>("metadata");
      const int key = types >> 4, value = types & 15;
      if (size > in_.remaining() || key == 0 || value == 0 || key > int(Type::structure) ||
          value > int(Type::structure))
        in_.reject("metadata: expected a map of known types, found ", size, " entries of types ",
                   key, " and ", value);
      for (uint64_t i = 0; i < size; ++i) {
        skip_elements(Type(key), 1, depth + 1);
        skip_elements(Type(value), 1, depth + 1);
      }
      return;
    }
    case Type::structure:
      for (int16_t before = 0;;) {
        const FieldHead head = field_head(before);
        if (head.type == Type::stop) return;
        before = head.number;
        skip(head.type, depth + 1);
      }
  }
}

}  // namespace deltasane::parquet
