// Thrift's compact protocol, from untrusted bytes: only what Parquet's metadata needs.
//
// A field is visited with its number; what a visitor does not read is skipped. Structures nested
// deeper than 24 are rejected.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/io/byte_reader.h"

namespace deltasane::parquet {

class ThriftReader {
 public:
  explicit ThriftReader(ByteReader& in) : in_(in) {}

  // Calls visit(number) for each field of a structure.
  template <class Visit>
  void structure(Visit&& visit) {
    expect(Type::structure, "a structure");
    fields(visit);
  }

  // The structure that the bytes begin with.
  template <class Visit>
  void top(Visit&& visit) {
    fields(visit);
  }

  // Calls visit() for each element of a list; it reads one.
  template <class Visit>
  void list(Visit&& visit) {
    expect(Type::list, "a list");
    const ListHead head = list_head();
    for (uint64_t i = 0; i < head.size; ++i) {
      current_ = head.element;
      read_ = false;
      visit();
      if (!read_) skip(head.element, depth_ + 1);
    }
    read_ = true;
  }

  int64_t integer();
  int32_t integer32();
  bool boolean();
  std::string_view text();

 private:
  enum class Type : uint8_t {
    stop,
    yes,
    no,
    i8,
    i16,
    i32,
    i64,
    real,
    text,
    list,
    set,
    map,
    structure
  };
  struct ListHead {
    Type element;
    uint64_t size;
  };
  struct FieldHead {
    Type type;
    int16_t number;
  };

  template <class Visit>
  void fields(Visit& visit) {
    enter();
    int16_t before = 0;
    for (;;) {
      const FieldHead head = field_head(before);
      if (head.type == Type::stop) break;
      before = head.number;
      current_ = head.type;
      read_ = false;
      visit(head.number);
      if (!read_) skip(head.type, depth_);
    }
    --depth_;
    read_ = true;
  }

  void enter();
  void expect(Type type, std::string_view what);
  FieldHead field_head(int16_t before);
  ListHead list_head();
  uint64_t varint();
  int64_t zigzag();
  void skip(Type type, int depth);
  void skip_elements(Type type, uint64_t count, int depth);

  ByteReader& in_;
  Type current_ = Type::stop;
  bool read_ = false;  // the current value was read by its visitor
  int depth_ = 0;
};

}  // namespace deltasane::parquet
