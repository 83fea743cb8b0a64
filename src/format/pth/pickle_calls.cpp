#include <algorithm>

#include "base/printable.h"
#include "format/pth/pickle_machine.h"

namespace deltasane {

void PickleMachine::push(PickleValue value) {
  if (values_.size() >= limits_.values)
    reader_.reject("expected at most ", limits_.values, " values in the pickle, found more");
  values_.push_back(std::move(value));
  push_reference(uint32_t(values_.size() - 1));
}

void PickleMachine::push_reference(uint32_t number) {
  if (stack_.size() >= limits_.values)
    reader_.reject("expected at most ", limits_.values, " values on the stack, found more");
  stack_.push_back(number);
}

void PickleMachine::push_long() {
  const auto length = reader_.number<uint8_t>("long integer");
  if (length > 8) reader_.reject("expected an integer of at most 8 bytes, found ", int(length));
  const std::span<const std::byte> bytes = reader_.take(length, "long integer");
  uint64_t number = 0;
  for (size_t i = 0; i < length; ++i) number |= uint64_t(bytes[i]) << (8 * i);
  if (length > 0 && length < 8 && uint8_t(bytes[length - 1u]) >= 0x80)
    number |= ~uint64_t{0} << (8 * length);
  push({Kind::integer, int64_t(number), {}, {}});
}

void PickleMachine::push_global() {
  const auto line = [&] {
    constexpr size_t longest = 128;
    ByteReader ahead = reader_;
    const std::string_view rest =
        ahead.text(std::min<uint64_t>(longest, ahead.remaining()), "name");
    const size_t length = rest.find('\n');
    if (length == rest.npos) reader_.reject("expected a name of at most ", longest, " bytes");
    return reader_.text(length + 1, "name").substr(0, length);
  };
  const std::string_view module = line(), name = line();
  const std::span<const PickleGlobal> known = pickle_globals();
  for (size_t i = 0; i < known.size(); ++i)
    if (known[i].module == module && known[i].name == name)
      return push({Kind::global, int64_t(i), {}, {}});
  reader_.reject("expected a global that saved tensors use, found ",
                 printable(cat(module, ".", name)), "; nothing was executed");
}

uint32_t PickleMachine::pop() {
  if (stack_.empty() || (!marks_.empty() && stack_.size() <= marks_.back()))
    reader_.reject("expected a value on the pickle's stack, found none");
  const uint32_t number = stack_.back();
  stack_.pop_back();
  return number;
}

PickleValue& PickleMachine::top() {
  const uint32_t number = pop();
  stack_.push_back(number);
  return values_[number];
}

std::vector<uint32_t> PickleMachine::pop_many(size_t count) {
  std::vector<uint32_t> items(count);
  for (size_t i = count; i-- > 0;) items[i] = pop();
  return items;
}

std::vector<uint32_t> PickleMachine::pop_marked() {
  if (marks_.empty()) reader_.reject("expected a mark on the pickle's stack, found none");
  const auto first = stack_.begin() + ptrdiff_t(marks_.back());
  std::vector<uint32_t> items(first, stack_.end());
  stack_.erase(first, stack_.end());
  marks_.pop_back();
  return items;
}

void PickleMachine::memo_put(uint32_t index) {
  if (index >= limits_.values)
    reader_.reject("expected memo indices below ", limits_.values, ", found ", index);
  top();
  memo_[index] = stack_.back();
}

void PickleMachine::memo_get(uint32_t index) {
  const auto found = memo_.find(index);
  if (found == memo_.end()) reader_.reject("expected a memo entry, found none at ", index);
  push_reference(found->second);
}

void PickleMachine::append(std::vector<uint32_t> items, Kind container) {
  PickleValue& into = top();
  if (into.kind != container)
    reader_.reject("expected a ", name_of(container), " to add to, found a ", name_of(into.kind));
  if (container == Kind::dict && items.size() % 2 != 0)
    reader_.reject("expected pairs of key and value, found a key alone");
  into.items.insert(into.items.end(), items.begin(), items.end());
}

void PickleMachine::persistent() {
  PickleValue id = values_[pop()];
  const auto kind = [&](size_t i) { return values_[id.items[i]].kind; };
  const bool good =
      id.kind == Kind::tuple && id.items.size() == 5 && kind(0) == Kind::text &&
      values_[id.items[0]].text == "storage" && kind(1) == Kind::global &&
      pickle_globals()[size_t(values_[id.items[1]].number)].role == PickleGlobal::Role::storage &&
      kind(2) == Kind::text && kind(3) == Kind::text && kind(4) == Kind::integer;
  if (!good)
    reader_.reject("expected (\"storage\", storage type, key, place, element count) as the id of ",
                   "a storage, found something else");
  push({Kind::storage, 0, {}, std::move(id.items)});
}

void PickleMachine::expect_arguments(const PickleGlobal& global, size_t found, size_t least,
                                     size_t most) const {
  if (found < least || found > most)
    reader_.reject("expected ", least, " to ", most, " arguments for ", global.name, ", found ",
                   found);
}

void PickleMachine::call() {
  const uint32_t arguments = pop(), function = pop();
  if (values_[function].kind != Kind::global || values_[arguments].kind != Kind::tuple)
    reader_.reject("expected a call of a known function with a tuple, found a ",
                   name_of(values_[function].kind), " and a ", name_of(values_[arguments].kind));
  const std::vector<uint32_t> items = values_[arguments].items;
  call_global(pickle_globals()[size_t(values_[function].number)], items);
}

void PickleMachine::call_global(const PickleGlobal& global, const std::vector<uint32_t>& items) {
  switch (global.role) {
    case PickleGlobal::Role::ordered_dict:
      expect_arguments(global, items.size(), 0, 0);
      return push({Kind::dict, 0, {}, {}});
    case PickleGlobal::Role::tensor_v2:
      expect_arguments(global, items.size(), 6, 7);
      return push({Kind::tensor, 2, {}, items});
    case PickleGlobal::Role::tensor_v3:
      expect_arguments(global, items.size(), 7, 8);
      return push({Kind::tensor, 3, {}, items});
    case PickleGlobal::Role::parameter:
      expect_arguments(global, items.size(), 3, 3);
      if (values_[items[0]].kind != Kind::tensor)
        reader_.reject("expected a tensor as parameter, found a ", name_of(values_[items[0]].kind));
      return push_reference(items[0]);
    case PickleGlobal::Role::size:
      expect_arguments(global, items.size(), 1, 1);
      if (values_[items[0]].kind != Kind::tuple)
        reader_.reject("expected a tuple as size, found a ", name_of(values_[items[0]].kind));
      return push_reference(items[0]);
    case PickleGlobal::Role::storage:
    case PickleGlobal::Role::dtype:
      reader_.reject("expected a call of a known function, found one of ", global.name);
  }
}

// A dictionary's extra attributes (PyTorch's version numbers) are dropped.
void PickleMachine::build() {
  pop();
  if (top().kind != Kind::dict)
    reader_.reject("expected state for a dictionary only, found it for a ", name_of(top().kind));
}

}  // namespace deltasane
