#include "format/pth/pickle_machine.h"

#include <array>

#include "base/printable.h"

namespace deltasane {
namespace {

using Role = PickleGlobal::Role;

constexpr std::array<PickleGlobal, 29> globals{{
    {"collections", "OrderedDict", Role::ordered_dict},
    {"torch._utils", "_rebuild_tensor_v2", Role::tensor_v2},
    {"torch._utils", "_rebuild_tensor_v3", Role::tensor_v3},
    {"torch._utils", "_rebuild_parameter", Role::parameter},
    {"torch", "Size", Role::size},
    {"torch.storage", "UntypedStorage", Role::storage},
    {"torch", "FloatStorage", Role::storage, StoredType::f32},
    {"torch", "DoubleStorage", Role::storage, StoredType::f64},
    {"torch", "HalfStorage", Role::storage, StoredType::f16},
    {"torch", "BFloat16Storage", Role::storage, StoredType::bf16},
    {"torch", "LongStorage", Role::storage, StoredType::i64},
    {"torch", "IntStorage", Role::storage, StoredType::i32},
    {"torch", "ShortStorage", Role::storage, StoredType::i16},
    {"torch", "CharStorage", Role::storage, StoredType::i8},
    {"torch", "ByteStorage", Role::storage, StoredType::u8},
    {"torch", "BoolStorage", Role::storage, StoredType::boolean},
    {"torch", "float32", Role::dtype, StoredType::f32},
    {"torch", "float64", Role::dtype, StoredType::f64},
    {"torch", "float16", Role::dtype, StoredType::f16},
    {"torch", "bfloat16", Role::dtype, StoredType::bf16},
    {"torch", "int64", Role::dtype, StoredType::i64},
    {"torch", "int32", Role::dtype, StoredType::i32},
    {"torch", "int16", Role::dtype, StoredType::i16},
    {"torch", "int8", Role::dtype, StoredType::i8},
    {"torch", "uint64", Role::dtype, StoredType::u64},
    {"torch", "uint32", Role::dtype, StoredType::u32},
    {"torch", "uint16", Role::dtype, StoredType::u16},
    {"torch", "uint8", Role::dtype, StoredType::u8},
    {"torch", "bool", Role::dtype, StoredType::boolean},
}};

constexpr std::array<std::string_view, 11> kinds{"None", "bool",    "integer", "float",
                                                 "text", "tuple",   "list",    "dictionary",
                                                 "name", "storage", "tensor"};

// The supported opcodes.
enum Opcode : uint8_t {
  mark = 0x28,
  empty_tuple = 0x29,
  stop = 0x2e,
  binfloat = 0x47,
  binint = 0x4a,
  binint1 = 0x4b,
  binint2 = 0x4d,
  none = 0x4e,
  binpersid = 0x51,
  reduce = 0x52,
  short_binstring = 0x55,
  binunicode = 0x58,
  empty_list = 0x5d,
  append_one = 0x61,
  build_state = 0x62,
  global_name = 0x63,
  appends = 0x65,
  binget = 0x68,
  long_binget = 0x6a,
  binput = 0x71,
  long_binput = 0x72,
  setitem = 0x73,
  tuple_marked = 0x74,
  setitems = 0x75,
  empty_dict = 0x7d,
  protocol = 0x80,
  newobj = 0x81,
  tuple1 = 0x85,
  tuple2 = 0x86,
  tuple3 = 0x87,
  newtrue = 0x88,
  newfalse = 0x89,
  long1 = 0x8a,
};

}  // namespace

std::span<const PickleGlobal> pickle_globals() { return globals; }
std::string_view name_of(PickleValue::Kind kind) { return kinds[size_t(kind)]; }

uint32_t PickleMachine::run() {
  if (reader_.number<uint8_t>("pickle") != protocol || reader_.number<uint8_t>("protocol") != 2)
    reader_.reject("expected a pickle of protocol 2");
  while (step()) {
  }
  if (stack_.size() != 1 || !marks_.empty())
    reader_.reject("expected one value at the end, found ", stack_.size());
  if (reader_.remaining() != 0)
    reader_.reject("expected the end of the pickle, found ", reader_.remaining(), " bytes more");
  return stack_.back();
}

bool PickleMachine::push_literal(uint8_t opcode) {
  const auto integer = [&](int64_t number) { push({Kind::integer, number, {}, {}}); };
  switch (opcode) {
    case none:
      return push({}), true;
    case newtrue:
    case newfalse:
      return push({Kind::truth, opcode == newtrue, {}, {}}), true;
    case binint:
      return integer(reader_.number<int32_t>("integer")), true;
    case binint1:
      return integer(reader_.number<uint8_t>("integer")), true;
    case binint2:
      return integer(reader_.number<uint16_t>("integer")), true;
    case long1:
      return push_long(), true;
    case binfloat:
      return reader_.take(8, "float"), push({Kind::real, 0, {}, {}}), true;
    case binunicode: {
      const auto length = reader_.number<uint32_t>("text length");
      return push({Kind::text, 0, reader_.text(length, "text"), {}}), true;
    }
    case short_binstring: {
      const auto length = reader_.number<uint8_t>("text length");
      return push({Kind::text, 0, reader_.text(length, "text"), {}}), true;
    }
    case empty_tuple:
      return push({Kind::tuple, 0, {}, {}}), true;
    case empty_list:
      return push({Kind::list, 0, {}, {}}), true;
    case empty_dict:
      return push({Kind::dict, 0, {}, {}}), true;
    case global_name:
      return push_global(), true;
    default:
      return false;
  }
}

bool PickleMachine::step() {
  const auto opcode = reader_.number<uint8_t>("pickle opcode");
  if (push_literal(opcode)) return true;
  const auto tuple_of = [&](size_t count) { push({Kind::tuple, 0, {}, pop_many(count)}); };
  switch (opcode) {
    case stop:
      return false;
    case mark:
      if (marks_.size() >= limits_.values) reader_.reject("expected fewer marks");
      return marks_.push_back(stack_.size()), true;
    case tuple1:
      return tuple_of(1), true;
    case tuple2:
      return tuple_of(2), true;
    case tuple3:
      return tuple_of(3), true;
    case tuple_marked:
      return push({Kind::tuple, 0, {}, pop_marked()}), true;
    case append_one:
      return append(pop_many(1), Kind::list), true;
    case appends:
      return append(pop_marked(), Kind::list), true;
    case setitem:
      return append(pop_many(2), Kind::dict), true;
    case setitems:
      return append(pop_marked(), Kind::dict), true;
    case binput:
      return memo_put(reader_.number<uint8_t>("memo index")), true;
    case long_binput:
      return memo_put(reader_.number<uint32_t>("memo index")), true;
    case binget:
      return memo_get(reader_.number<uint8_t>("memo index")), true;
    case long_binget:
      return memo_get(reader_.number<uint32_t>("memo index")), true;
    case binpersid:
      return persistent(), true;
    case reduce:
    case newobj:
      return call(), true;
    case build_state:
      return build(), true;
    default:
      reader_.reject("expected a pickle opcode that saved tensors use, found ", int(opcode));
  }
}

}  // namespace deltasane
