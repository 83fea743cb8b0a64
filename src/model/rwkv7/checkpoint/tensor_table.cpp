#include "model/rwkv7/checkpoint/tensor_table.h"

#include <array>

namespace deltasane {
namespace {

using Where = Rwkv7Row::Where;
using Form = Rwkv7Row::Form;
using Role = ParameterRole;
using Size = Rwkv7Size;

constexpr std::array<Rwkv7Row, 41> rows{{
    {"emb.weight", Where::model, Form::matrix, Role::embedding, Size::V, Size::C},
    {"ln_out.weight", Where::model, Form::vector, Role::vector, Size::C},
    {"ln_out.bias", Where::model, Form::vector, Role::vector, Size::C},
    {"head.weight", Where::model, Form::matrix, Role::head, Size::V, Size::C},
    {"ln1.weight", Where::every_block, Form::vector, Role::vector, Size::C},
    {"ln1.bias", Where::every_block, Form::vector, Role::vector, Size::C},
    {"ln2.weight", Where::every_block, Form::vector, Role::vector, Size::C},
    {"ln2.bias", Where::every_block, Form::vector, Role::vector, Size::C},
    {"ln0.weight", Where::first_block, Form::vector, Role::vector, Size::C},
    {"ln0.bias", Where::first_block, Form::vector, Role::vector, Size::C},
    {"att.x_r", Where::every_block, Form::spread_vector, Role::vector, Size::C},
    {"att.x_w", Where::every_block, Form::spread_vector, Role::vector, Size::C},
    {"att.x_k", Where::every_block, Form::spread_vector, Role::vector, Size::C},
    {"att.x_v", Where::every_block, Form::spread_vector, Role::vector, Size::C},
    {"att.x_a", Where::every_block, Form::spread_vector, Role::vector, Size::C},
    {"att.x_g", Where::every_block, Form::spread_vector, Role::vector, Size::C},
    {"att.w0", Where::every_block, Form::spread_vector, Role::decay_bias, Size::C},
    {"att.w1", Where::every_block, Form::factor, Role::low_rank, Size::C, Size::Rw},
    {"att.w2", Where::every_block, Form::factor, Role::low_rank, Size::Rw, Size::C},
    {"att.a0", Where::every_block, Form::spread_vector, Role::vector, Size::C},
    {"att.a1", Where::every_block, Form::factor, Role::low_rank, Size::C, Size::Ra},
    {"att.a2", Where::every_block, Form::factor, Role::low_rank, Size::Ra, Size::C},
    {"att.v0", Where::later_blocks, Form::spread_vector, Role::vector, Size::C},
    {"att.v1", Where::later_blocks, Form::factor, Role::low_rank, Size::C, Size::Rv},
    {"att.v2", Where::later_blocks, Form::factor, Role::low_rank, Size::Rv, Size::C},
    {"att.g1", Where::every_block, Form::factor, Role::low_rank, Size::C, Size::Rg},
    {"att.g2", Where::every_block, Form::factor, Role::low_rank, Size::Rg, Size::C},
    {"att.k_k", Where::every_block, Form::spread_vector, Role::vector, Size::C},
    {"att.k_a", Where::every_block, Form::spread_vector, Role::vector, Size::C},
    {"att.r_k", Where::every_block, Form::matrix, Role::vector, Size::H, Size::N},
    {"att.receptance.weight", Where::every_block, Form::matrix, Role::matrix, Size::C, Size::C},
    {"att.key.weight", Where::every_block, Form::matrix, Role::matrix, Size::C, Size::C},
    {"att.value.weight", Where::every_block, Form::matrix, Role::matrix, Size::C, Size::C},
    {"att.output.weight", Where::every_block, Form::matrix, Role::matrix, Size::C, Size::C},
    {"att.ln_x.weight", Where::every_block, Form::vector, Role::vector, Size::C},
    {"att.ln_x.bias", Where::every_block, Form::vector, Role::vector, Size::C},
    {"att.x_tau", Where::every_block, Form::spread_vector, Role::sane, Size::C},
    {"att.w_tau", Where::every_block, Form::factor, Role::sane, Size::C, Size::H},
    {"ffn.x_k", Where::every_block, Form::spread_vector, Role::vector, Size::C},
    {"ffn.key.weight", Where::every_block, Form::matrix, Role::matrix, Size::F, Size::C},
    {"ffn.value.weight", Where::every_block, Form::matrix, Role::matrix, Size::C, Size::F},
}};

}  // namespace

std::span<const Rwkv7Row> rwkv7_rows() { return rows; }

const Rwkv7Row* rwkv7_block_row(std::string_view suffix) {
  for (const Rwkv7Row& row : rows)
    if (row.where != Where::model && row.suffix == suffix) return &row;
  return nullptr;
}

const Rwkv7Row* rwkv7_model_row(std::string_view name) {
  for (const Rwkv7Row& row : rows)
    if (row.where == Where::model && row.suffix == name) return &row;
  return nullptr;
}

std::string rwkv7_block_name(int64_t block, std::string_view suffix) {
  return cat("blocks.", block, ".", suffix);
}

int64_t rwkv7_size(const Rwkv7Shape& shape, Rwkv7Size size) {
  switch (size) {
    case Size::none:
      return 1;
    case Size::C:
      return shape.channels;
    case Size::F:
      return shape.feed_forward;
    case Size::V:
      return shape.vocabulary;
    case Size::H:
      return shape.heads;
    case Size::N:
      return shape.head_size;
    case Size::Rw:
      return shape.rank_w;
    case Size::Ra:
      return shape.rank_a;
    case Size::Rv:
      return shape.rank_v;
    case Size::Rg:
      return shape.rank_g;
  }
  return 1;
}

Shape rwkv7_shape(const Rwkv7Shape& shape, const Rwkv7Row& row) {
  if (row.columns == Size::none) return {rwkv7_size(shape, row.rows)};
  return {rwkv7_size(shape, row.rows), rwkv7_size(shape, row.columns)};
}

}  // namespace deltasane
