#include "format/pth/pickle.h"

#include "base/printable.h"
#include "format/pth/pickle_machine.h"
#include "tensor/view.h"

namespace deltasane {
namespace {

using ValueKind = PickleValue::Kind;

// Converts values of kind tensor to PickledTensors; errors name the tensor.
class Extractor {
 public:
  Extractor(const PickleMachine& machine, const std::string& file)
      : machine_(machine), file_(file) {}

  PickledTensor tensor(std::string_view name, uint32_t number) const {
    const PickleValue& value = machine_.value(number);
    if (value.kind != ValueKind::tensor)
      reject(name, cat("expected a tensor, found a ", name_of(value.kind),
                       value.kind == ValueKind::dict ? "; save the inner dictionary by itself" : ""));
    PickledTensor out;
    out.name = name;
    const PickleValue& storage = expect(name, value.items[0], ValueKind::storage);
    const PickleGlobal& type = global(storage.items[1]);
    out.type = type.type;
    uint64_t item = 1;  // an untyped storage counts bytes
    if (type.type != StoredType::foreign) item = uint64_t(layout_of(type.type).bytes);
    if (value.number == 3) {
      const PickleGlobal& dtype = global(expect_number(name, value.items[6], ValueKind::global));
      if (dtype.role != PickleGlobal::Role::dtype)
        reject(name, "expected a dtype, found another global");
      out.type = dtype.type;
    } else if (type.type == StoredType::foreign) {
      reject(name, "expected a typed storage, found an untyped one");
    }
    const int64_t count = machine_.value(storage.items[4]).number;
    if (count < 0 || uint64_t(count) > (uint64_t{1} << 60) / item)
      reject(name, cat("expected a valid element count, found ", count));
    out.storage = machine_.value(storage.items[2]).text;
    out.storage_bytes = uint64_t(count) * item;
    out.offset = expect(name, value.items[1], ValueKind::integer).number;
    expect(name, value.items[4], ValueKind::truth);  // requires_grad
    expect(name, value.items[5], ValueKind::dict);   // hooks
    out.size = integers(name, value.items[2]);
    out.stride = integers(name, value.items[3]);
    return out;
  }

 private:
  [[noreturn]] void reject(std::string_view name, std::string_view why) const {
    fail(Fault::file, file_, ": tensor ", printable(name), ": ", why);
  }
  const PickleGlobal& global(uint32_t number) const {
    return pickle_globals()[size_t(machine_.value(number).number)];
  }
  uint32_t expect_number(std::string_view name, uint32_t number, ValueKind kind) const {
    expect(name, number, kind);
    return number;
  }
  const PickleValue& expect(std::string_view name, uint32_t number, ValueKind kind) const {
    const PickleValue& value = machine_.value(number);
    if (value.kind != kind)
      reject(name, cat("expected a ", name_of(kind), ", found a ", name_of(value.kind)));
    return value;
  }
  std::vector<int64_t> integers(std::string_view name, uint32_t number) const {
    const PickleValue& tuple = expect(name, number, ValueKind::tuple);
    if (tuple.items.size() > size_t(max_rank))
      reject(name, cat("expected at most ", max_rank, " dimensions, found ", tuple.items.size()));
    std::vector<int64_t> out;
    for (const uint32_t item : tuple.items)
      out.push_back(expect(name, item, ValueKind::integer).number);
    return out;
  }

  const PickleMachine& machine_;
  const std::string& file_;
};

}  // namespace

std::vector<PickledTensor> read_pickle(std::span<const std::byte> bytes, const std::string& name,
                                       const PickleLimits& limits) {
  PickleMachine machine(bytes, name, limits);
  const PickleValue& top = machine.value(machine.run());
  if (top.kind != ValueKind::dict)
    fail(Fault::file, name, ": expected a dictionary of tensors, found a ", name_of(top.kind));
  const Extractor extractor(machine, name);
  std::vector<PickledTensor> tensors;
  for (size_t i = 0; i < top.items.size(); i += 2) {
    const PickleValue& key = machine.value(top.items[i]);
    if (key.kind != ValueKind::text)
      fail(Fault::file, name, ": expected names as keys, found a ", name_of(key.kind));
    tensors.push_back(extractor.tensor(key.text, top.items[i + 1]));
  }
  return tensors;
}

}  // namespace deltasane
