#include "kernel/matmul/weights.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "base/checked.h"
#include "base/half.h"
#include "base/words/type_name.h"
#include "kernel/matmul/low_bits/pack.h"

namespace deltasane::kernel {
namespace {

// The smallest f16 number that is at least `least`.
f16 rounded_up(float least) {
  f16 scale(least);
  if (float(scale) < least) ++scale.bits;
  return scale;
}

// 32 columns of one row, those past the end zero.
void quantize(std::span<const float> row, Q8Block& to, int in_group, int64_t row_number,
              int64_t column) {
  float largest = 0;
  for (const float w : row) {
    if (!std::isfinite(w))
      fail(Fault::argument, "q8 weights: expected finite numbers, found ", w, " in row ",
           row_number);
    largest = std::max(largest, std::abs(w));
  }
  const f16 scale = rounded_up(largest / 127.0f);
  if (!std::isfinite(float(scale)))
    fail(Fault::argument, "q8 weights: expected at most 127 * 65504, found ", largest, " in row ",
         row_number, " from column ", column);
  to.scale[in_group] = scale.bits;
  for (size_t i = 0; i < row.size(); ++i)
    to.value[i / 4][in_group][i % 4] =
        largest > 0 ? int8_t(std::lround(row[i] / float(scale))) : int8_t{0};
}

template <class RowOf>
void quantize_all(const RowOf& row_of, Q8Block* to, int64_t out, int64_t in) {
  const int64_t blocks = q8_blocks(in);
  for (int64_t r = 0; r < out; ++r) {
    const std::span<const float> row = row_of(r);
    for (int64_t b = 0; b < blocks; ++b) {
      const int64_t begin = b * q8_columns;
      quantize(row.subspan(size_t(begin), size_t(std::min<int64_t>(q8_columns, in - begin))),
               to[r / q8_rows * blocks + b], int(r % q8_rows), r, begin);
    }
  }
}

void expect_count(std::string_view what, uint64_t found, int64_t out, int64_t in,
                  uint64_t expected) {
  if (found != expected)
    fail(Fault::argument, what, ": expected ", expected, " for a matrix (", out, ", ", in,
         "), found ", found);
}

// Of 8 rows.
int64_t block_bytes(WeightType type) {
  return type == WeightType::q8 ? int64_t(sizeof(Q8Block)) : low_bit_block_bytes(type);
}

void pack_q8_0(const std::byte* from, int in_group, Q8Block& block) {
  std::memcpy(&block.scale[in_group], from, 2);
  for (int64_t i = 0; i < q8_columns / 4; ++i)
    std::memcpy(block.value[i][in_group], from + 2 + 4 * i, 4);
}

float element(WeightType type, const std::byte* from) {
  if (type == WeightType::f32) {
    float value;
    std::memcpy(&value, from, 4);
    return value;
  }
  uint16_t bits;
  std::memcpy(&bits, from, 2);
  return type == WeightType::f16 ? float(f16::from_bits(bits)) : float(bf16::from_bits(bits));
}

}  // namespace

WeightType weight_type_named(std::string_view name, std::string_view what, std::string_view also) {
  const std::string wanted = type_name(name);
  for (const WeightType type : weight_types)
    if (wanted == type_name(name_of(type))) return type;
  if (!wanted.ends_with("_k_m"))
    fail(Fault::usage, what, ": expected ", also, weight_types_text, ", found '", name, "'");
  fail(Fault::usage, what, ": expected ", also, weight_types_text, ", found the mixture '", name,
       "'; files have mixtures, as convert writes them. All matrices alike: ",
       wanted.substr(0, wanted.size() - 2));
}

const char* name_of(WeightType type) {
  switch (type) {
    case WeightType::f32:
      return "f32";
    case WeightType::f16:
      return "f16";
    case WeightType::bf16:
      return "bf16";
    case WeightType::q8:
      return "q8";
    case WeightType::q6_k:
      return "q6_k";
    case WeightType::q5_k:
      return "q5_k";
    case WeightType::q4_k:
      return "q4_k";
    case WeightType::q4:
      return "q4";
  }
  return "unknown";
}

Weights::Weights(WeightType type, int64_t out, int64_t in) : type_(type), out_(out), in_(in) {
  if (out < 1 || in < 1)
    fail(Fault::argument, "weights: expected (out, in) of at least 1 each, found (", out, ", ", in,
         ")");
  checked_multiply(checked_multiply(uint64_t(out), uint64_t(in), "weights"), 16, "weights");
}

std::byte* WeightMemory::allocate(uint64_t bytes) {
  if (blocks_.empty() || blocks_.back().size() - used_ < bytes) {
    blocks_.emplace_back(std::max(bytes, block_bytes_));
    used_ = 0;
  }
  std::byte* const allocated = blocks_.back().data() + used_;
  const uint64_t rounded = (bytes + Buffer::alignment - 1) / Buffer::alignment * Buffer::alignment;
  used_ = std::min(blocks_.back().size(), used_ + rounded);
  return allocated;
}

std::byte* Weights::own(WeightMemory* memory) {
  if (!memory) owned_ = Buffer(bytes());
  std::byte* const place = memory ? memory->allocate(bytes()) : owned_.data();
  rows_ = place;
  if (is_quantized(type_)) std::memset(place, 0, bytes());  // for rows and columns past the end
  return place;
}

uint64_t Weights::bytes() const {
  if (is_quantized(type_)) {
    const int64_t columns = type_ == WeightType::q8 ? q8_columns : low_bit_columns(type_);
    return uint64_t(q8_groups(out_) * ((in_ + columns - 1) / columns) * block_bytes(type_));
  }
  return uint64_t(out_ * in_ * element_bytes(type_));
}

float Weights::at(int64_t row, int64_t column) const {
  if (!is_quantized(type_))
    return element(type_, rows_ + (row * in_ + column) * element_bytes(type_));
  if (is_low_bits(type_)) {
    const int64_t columns = low_bit_columns(type_);
    const int64_t number = row / q8_rows * (in_ / columns) + column / columns;
    return low_bit_element(type_, rows_ + number * block_bytes(type_), int(row % q8_rows),
                           column % columns);
  }
  const Q8Block& block = reinterpret_cast<const Q8Block*>(
      rows_)[row / q8_rows * q8_blocks(in_) + column / q8_columns];
  const int64_t i = column % q8_columns, r = row % q8_rows;
  return float(f16::from_bits(block.scale[r])) * float(block.value[i / 4][r][i % 4]);
}

Weights Weights::view(WeightType type, const void* rows, int64_t out, int64_t in) {
  Weights weights(type, out, in);
  if (is_quantized(type))
    fail(Fault::argument, "weights: expected f32, f16 or bf16 for a view, found ", name_of(type));
  if (!rows || reinterpret_cast<uintptr_t>(rows) % uintptr_t(element_bytes(type)) != 0)
    fail(Fault::argument, "weights: expected ", name_of(type), " rows aligned to ",
         element_bytes(type), " bytes, found ", rows ? "others" : "no memory");
  weights.rows_ = static_cast<const std::byte*>(rows);
  return weights;
}

Weights Weights::copied(WeightType type, std::span<const float> rows, int64_t out, int64_t in,
                        WeightMemory* memory) {
  if (type == WeightType::q8) return quantized(rows, out, in, memory);
  require(!is_quantized(type), "weights of few bits are made of GGUF's blocks");
  Weights weights(type, out, in);
  expect_count("weights", rows.size(), out, in, uint64_t(out * in));
  std::byte* to = weights.own(memory);
  for (const float w : rows) {
    const uint16_t bits = type == WeightType::f16 ? f16(w).bits : bf16(w).bits;
    std::memcpy(to, type == WeightType::f32 ? static_cast<const void*>(&w) : &bits,
                size_t(element_bytes(type)));
    to += element_bytes(type);
  }
  return weights;
}

Weights Weights::copied(const Weights& other, WeightMemory* memory) {
  Weights weights(other.type_, other.out_, other.in_);
  std::memcpy(weights.own(memory), other.rows_, other.bytes());
  return weights;
}

Weights Weights::quantized(std::span<const float> rows, int64_t out, int64_t in,
                           WeightMemory* memory) {
  Weights weights(WeightType::q8, out, in);
  expect_count("weights", rows.size(), out, in, uint64_t(out * in));
  auto* const to = reinterpret_cast<Q8Block*>(weights.own(memory));
  quantize_all([&](int64_t r) { return rows.subspan(size_t(r * in), size_t(in)); }, to, out, in);
  return weights;
}

Weights Weights::quantized(const Weights& floats, WeightMemory* memory) {
  Weights weights(WeightType::q8, floats.out_, floats.in_);
  if (is_quantized(floats.type_))
    fail(Fault::argument, "weights: expected f32, f16 or bf16 to quantize, found ",
         name_of(floats.type_));
  auto* const to = reinterpret_cast<Q8Block*>(weights.own(memory));
  std::vector<float> row(size_t(floats.in_));
  quantize_all(
      [&](int64_t r) {
        for (int64_t i = 0; i < floats.in_; ++i) row[size_t(i)] = floats.at(r, i);
        return std::span<const float>(row);
      },
      to, floats.out_, floats.in_);
  return weights;
}

Weights Weights::from_gguf(WeightType type, std::span<const std::byte> blocks, int64_t out,
                           int64_t in, WeightMemory* memory) {
  require(is_quantized(type), "GGUF's blocks become a quantized type");
  Weights weights(type, out, in);
  const int64_t columns = type == WeightType::q8 ? q8_columns : low_bit_columns(type);
  if (in % columns != 0)
    fail(Fault::argument, name_of(type), " weights: expected rows of a multiple of ", columns,
         ", found ", in);
  const int64_t from_bytes = type == WeightType::q8 ? 2 + q8_columns : gguf_block_bytes(type);
  const int64_t to_bytes = block_bytes(type), row_blocks = in / columns;
  expect_count(cat(name_of(type), " bytes"), blocks.size(), out, in,
               uint64_t(out * row_blocks * from_bytes));
  std::byte* const to = weights.own(memory);
  for (int64_t r = 0; r < out; ++r)
    for (int64_t b = 0; b < row_blocks; ++b) {
      const std::byte* from = blocks.data() + (r * row_blocks + b) * from_bytes;
      std::byte* const block = to + (r / q8_rows * row_blocks + b) * to_bytes;
      const int in_group = int(r % q8_rows);
      if (type == WeightType::q8)
        pack_q8_0(from, in_group, *reinterpret_cast<Q8Block*>(block));
      else
        pack_low_bits(type, from, in_group, block);
    }
  return weights;
}

}  // namespace deltasane::kernel
