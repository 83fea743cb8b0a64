// The stack machine of read_pickle.
#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>

#include "base/io/byte_reader.h"
#include "format/pth/pickle.h"

namespace deltasane {

struct PickleValue {
  enum class Kind : uint8_t {
    none,
    truth,    // number
    integer,  // number
    real,     // value dropped: no tensor needs one
    text,     // text
    tuple,    // items
    list,     // items
    dict,     // items: key, value, key, value, ...
    global,   // number: row of the table
    storage,  // items: the persistent id
    tensor,   // items: the arguments; number: 2 or 3 for the function's version
  };
  Kind kind = Kind::none;
  int64_t number = 0;
  std::string_view text;
  std::vector<uint32_t> items;
};
std::string_view name_of(PickleValue::Kind kind);

// The only globals that a pickle may name.
struct PickleGlobal {
  enum class Role : uint8_t { ordered_dict, tensor_v2, tensor_v3, parameter, size, storage, dtype };
  std::string_view module, name;
  Role role;
  StoredType type = StoredType::foreign;  // of storages and dtypes; foreign for an untyped storage
};
std::span<const PickleGlobal> pickle_globals();

class PickleMachine {
 public:
  PickleMachine(std::span<const std::byte> bytes, const std::string& name,
                const PickleLimits& limits)
      : reader_(bytes, name), limits_(limits) {}

  uint32_t run();  // index of the resulting value
  const PickleValue& value(uint32_t number) const { return values_[number]; }

 private:
  using Kind = PickleValue::Kind;

  bool step();  // false at the end
  bool push_literal(uint8_t opcode);
  void push(PickleValue value);
  void push_long();
  void push_global();
  void push_reference(uint32_t number);
  uint32_t pop();
  PickleValue& top();
  std::vector<uint32_t> pop_marked();
  std::vector<uint32_t> pop_many(size_t count);
  void memo_put(uint32_t index);
  void memo_get(uint32_t index);
  void append(std::vector<uint32_t> items, Kind container);
  void persistent();
  void call();
  void call_global(const PickleGlobal& global, const std::vector<uint32_t>& arguments);
  void build();
  void expect_arguments(const PickleGlobal& global, size_t found, size_t least, size_t most) const;

  ByteReader reader_;
  PickleLimits limits_;
  std::vector<PickleValue> values_;
  std::vector<uint32_t> stack_;
  std::vector<size_t> marks_;
  std::unordered_map<uint32_t, uint32_t> memo_;
};

}  // namespace deltasane
