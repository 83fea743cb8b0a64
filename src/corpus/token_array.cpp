#include "corpus/token_array.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "base/error.h"
#include "base/printable.h"
#include "corpus/description.h"
#include "corpus/shuffle.h"
#include "format/npy/npy.h"

namespace deltasane::corpus {
namespace {

std::optional<int32_t> read_padding(const std::string& text) {
  if (text == "none") return std::nullopt;
  int32_t id = 0;
  const char* const end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, id);
  if (read.ec != std::errc() || read.ptr != end || id < 0)
    fail(Fault::usage, "npy: padding: expected none or a token id, found ", printable(text));
  return id;
}

bool is_integer(StoredType type) {
  switch (type) {
    case StoredType::i64:
    case StoredType::i32:
    case StoredType::i16:
    case StoredType::i8:
    case StoredType::u64:
    case StoredType::u32:
    case StoredType::u16:
    case StoredType::u8:
      return true;
    default:
      return false;
  }
}

class TokenArray final : public Source {
 public:
  explicit TokenArray(Options options) : array_(open_npy(options.subject())) {
    const std::string padding = options.text("padding", "none");
    padding_ = read_padding(padding);
    const auto wanted = int64_t(options.number("piece", 0, 1, uint64_t{1} << 30));
    shuffled_ = options.choice("order", 0, order_names) == 1;
    seed_ = options.number("seed", 1, 0, ~uint64_t{0});
    options.done();
    const int rank = array_.shape.rank();
    if (!is_integer(array_.type) || rank < 1 || rank > 2)
      fail(Fault::file, array_.path, ": expected integers in one or two dimensions, found ",
           name_of(array_.type), " ", array_.shape);
    elements_ = array_.shape.elements();
    if (elements_ == 0) fail(Fault::file, array_.path, ": expected tokens, found an empty corpus");
    piece_ = rank == 2 ? array_.shape[1] : wanted > 0 ? wanted : 4096;
    if (wanted > 0 && wanted != piece_)
      fail(Fault::usage, array_.path, ": piece: expected ", piece_, ", the length of a row, found ",
           wanted);
    pieces_ = uint64_t((elements_ + piece_ - 1) / piece_);
    description_ = cat("npy:", quoted_if_needed(options.subject()), ",piece=", piece_,
                       ",padding=", padding, ",order=", order_names[shuffled_], ",seed=", seed_);
  }

  Piece piece(uint64_t index) const override {
    const uint64_t number = shuffled_ ? shuffled_epochs(index, pieces_, seed_) : index % pieces_;
    const int64_t first = int64_t(number) * piece_;
    Piece piece;
    piece.tokens.resize(size_t(std::min(piece_, elements_ - first)));
    array_.read(first, piece.tokens);
    if (array_.shape.rank() == 2 && padding_)
      while (!piece.tokens.empty() && piece.tokens.back() == *padding_) piece.tokens.pop_back();
    piece.learned = {{0, piece.tokens.size()}};
    return piece;
  }

  std::optional<uint64_t> pieces() const override { return pieces_; }
  std::string description() const override { return description_; }
  std::vector<fs::path> files() const override { return {array_.path}; }

 private:
  NpyArray array_;
  std::optional<int32_t> padding_;
  int64_t piece_ = 0, elements_ = 0;
  bool shuffled_ = false;
  uint64_t seed_ = 0, pieces_ = 0;
  std::string description_;
};

}  // namespace

std::unique_ptr<Source> open_token_array(std::string_view rest) {
  return std::make_unique<TokenArray>(Options("npy", rest, Options::Subject::required));
}

}  // namespace deltasane::corpus
