#include "format/contents/contents.h"

#include <algorithm>
#include <functional>

#include "base/crc32/crc32.h"
#include "format/contents/non_finite_scan.h"
#include "format/parallel_read.h"

namespace deltasane {
namespace {

constexpr int64_t part_elements = int64_t{1} << 20;   // of one thread: a multiple of every block
constexpr int64_t block_elements = int64_t{1} << 13;  // looked at twice while in the cache
constexpr size_t part_bytes = size_t{4} << 20;
constexpr size_t none = size_t(-1);

// A part of a tensor, or bytes that belong to none.
struct Part {
  std::span<const std::byte> bytes;
  size_t tensor = none;       // whose numbers these are
  size_t checksummed = none;  // whose next bytes these are
};

class Parts {
 public:
  Parts(const TensorFile& file, ContentsWanted wanted) : file_(file) {
    const auto by_address = [](const auto& a, const auto& b) {
      return std::less<>{}(a.bytes.data(), b.bytes.data());
    };
    std::vector<Part> tensors, checksummed;
    for (size_t i = 0; wanted.numbers && i < file.tensors().size(); ++i) {
      const StoredTensor& tensor = file.tensors()[i];
      if (tensor.type == StoredType::foreign || tensor.bytes.empty()) continue;
      if (tensor.contiguous())
        tensors.push_back({tensor.bytes, i, none});
      else
        parts_.push_back({tensor.bytes, i, none});
    }
    for (size_t i = 0; wanted.checksums && i < file.checksummed().size(); ++i)
      checksummed.push_back({file.checksummed()[i].bytes, none, i});
    std::ranges::stable_sort(tensors, by_address);
    std::ranges::stable_sort(checksummed, by_address);
    auto tensor = tensors.begin();
    for (const Part& range : checksummed) {
      const std::byte *at = range.bytes.data(), *const end = at + range.bytes.size();
      for (; tensor != tensors.end() && std::less<>{}(tensor->bytes.data(), end); ++tensor) {
        const std::byte *const from = tensor->bytes.data(), *const to = from + tensor->bytes.size();
        const bool next = !std::less<>{}(from, at) && !std::less<>{}(end, to);
        if (next) {  // else it shares its bytes, and they are counted
          add_bytes({at, from}, range.checksummed);
          at = to;
        }
        add_tensor(*tensor, next ? range.checksummed : none);
      }
      add_bytes({at, end}, range.checksummed);
    }
    for (; tensor != tensors.end(); ++tensor) add_tensor(*tensor, none);
  }

  const std::vector<Part>& all() const { return parts_; }

 private:
  void add_bytes(std::span<const std::byte> bytes, size_t checksummed) {
    add_cut(bytes, part_bytes, {{}, none, checksummed});
  }
  void add_tensor(const Part& tensor, size_t checksummed) {
    const StoredLayout layout = layout_of(file_.tensors()[tensor.tensor].type);
    add_cut(tensor.bytes, size_t(part_elements / layout.block * layout.bytes),
            {{}, tensor.tensor, checksummed});
  }
  void add_cut(std::span<const std::byte> bytes, size_t step, Part part) {
    while (!bytes.empty()) {
      part.bytes = bytes.first(std::min(step, bytes.size()));
      parts_.push_back(part);
      bytes = bytes.subspan(part.bytes.size());
    }
  }

  const TensorFile& file_;
  std::vector<Part> parts_;
};

struct PartFound {
  uint32_t checksum = 0;
  bool non_finite = false;
};

bool any_non_finite(const Tensor<float>& numbers) {
  return any_non_finite(StoredType::f32, reinterpret_cast<const std::byte*>(numbers.data()),
                        numbers.elements());
}

PartFound read_part(const TensorFile& file, const Part& part) {
  PartFound found;
  const StoredTensor* const tensor =
      part.tensor == none ? nullptr : &file.tensors()[part.tensor];
  if (tensor && !tensor->contiguous()) {
    found.non_finite = any_non_finite(file.read(*tensor));
    return found;
  }
  const StoredLayout layout = layout_of(tensor ? tensor->type : StoredType::f32);
  const size_t block = size_t(block_elements / layout.block * layout.bytes);
  for (size_t at = 0; at < part.bytes.size(); at += block) {
    const auto bytes = part.bytes.subspan(at, std::min(block, part.bytes.size() - at));
    if (tensor && !found.non_finite)
      found.non_finite = any_non_finite(tensor->type, bytes.data(),
                                        int64_t(bytes.size()) / layout.bytes * layout.block);
    if (part.checksummed != none) found.checksum = crc32(bytes, found.checksum);
  }
  return found;
}

}  // namespace

ContentsFound read_contents(const TensorFile& file, ContentsWanted wanted) {
  const Parts parts(file, wanted);
  const std::vector<Part>& all = parts.all();
  uint64_t bytes = 0;
  for (const Part& part : all) bytes += part.bytes.size();
  std::vector<PartFound> found(all.size());
  read_in_parallel(bytes, int64_t(all.size()),
                   [&](int64_t i) { found[size_t(i)] = read_part(file, all[size_t(i)]); });
  ContentsFound contents{std::vector<uint32_t>(file.checksummed().size()),
                         std::vector<char>(file.tensors().size())};
  for (size_t i = 0; i < all.size(); ++i) {
    const Part& part = all[i];
    if (part.tensor != none && found[i].non_finite) contents.non_finite[part.tensor] = 1;
    if (part.checksummed == none) continue;
    uint32_t& before = contents.checksums[part.checksummed];
    before = crc32_of_both(before, found[i].checksum, part.bytes.size());
  }
  return contents;
}

void check_contents(const TensorFile& file, Checksums checksums, NonFiniteWeights non_finite) {
  const ContentsWanted wanted{checksums == Checksums::verify,
                              non_finite == NonFiniteWeights::refuse};
  const ContentsFound contents = read_contents(file, wanted);
  for (size_t i = 0; wanted.checksums && i < file.checksummed().size(); ++i)
    expect_checksum(file.path(), file.checksummed()[i], contents.checksums[i]);
  if (const auto found = first_non_finite(file, contents.non_finite))
    throw NonFiniteError(cat(file.path(), ": expected finite weights, found ", to_string(*found),
                             "; the file is damaged, or training diverged: use an earlier one"));
}

}  // namespace deltasane
