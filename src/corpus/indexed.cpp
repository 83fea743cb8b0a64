#include "corpus/indexed.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/error.h"
#include "base/printable.h"
#include "corpus/description.h"
#include "corpus/shuffle.h"
#include "format/npy/indexed_tokens.h"

namespace deltasane::corpus {
namespace {

constexpr std::string_view indexed_orders[] = {"file", "shuffled", "rwkv-lm"};
enum Order : size_t { file_order, shuffled_order, rwkv_lm };

// Tokens per piece; 0 if pieces are items.
int64_t read_piece_length(const std::string& text) {
  if (text == "items") return 0;
  int64_t length = 0;
  const char* const end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, length);
  if (read.ec != std::errc() || read.ptr != end || length < 1 || length > 1 << 30)
    fail(Fault::usage, "binidx: piece: expected items or a number of tokens from 1 to ", 1 << 30,
         ", found ", printable(text));
  return length;
}

bool is_prime(uint64_t number) {
  if (number < 4) return number > 1;
  if (number % 2 == 0) return false;
  for (uint64_t divisor = 3; divisor <= number / divisor; divisor += 2)
    if (number % divisor == 0) return false;
  return true;
}

uint64_t multiply_mod(uint64_t a, uint64_t b, uint64_t modulus) {
  __extension__ using Wide = unsigned __int128;
  return uint64_t(Wide(a) * b % modulus);
}

class Indexed final : public Source {
 public:
  explicit Indexed(Options options) : files_(IndexedTokens::open(options.subject())) {
    const std::string piece = options.text("piece", "items");
    length_ = read_piece_length(piece);
    order_ = options.choice("order", file_order, indexed_orders);
    seed_ = options.number("seed", 1, 0, ~uint64_t{0});
    options.done();
    tokens_ = files_.tokens().shape.elements();
    if (tokens_ == 0)
      fail(Fault::file, files_.tokens().path, ": expected tokens, found an empty corpus");
    pieces_ = length_ == 0 ? uint64_t(files_.items()) : uint64_t((tokens_ - 1) / length_ + 1);
    if (order_ == rwkv_lm) {
      if (length_ == 0)
        fail(Fault::usage, "binidx: order=rwkv-lm: expected piece=N, the context, found items");
      pieces_ = sample_prime(uint64_t(tokens_ / length_));
      if (pieces_ == 0)
        fail(Fault::file, files_.tokens().path, ": order=rwkv-lm: expected at least 3 times ",
             length_, " tokens, found ", tokens_);
    }
    description_ = cat("binidx:", quoted_if_needed(options.subject()), ",piece=", piece,
                       ",order=", indexed_orders[order_], ",seed=", seed_);
  }

  Piece piece(uint64_t index) const override {
    const IndexedTokens::Item range = token_range(index);
    Piece piece;
    piece.tokens.resize(size_t(range.count));
    files_.tokens().read(range.first, piece.tokens);
    piece.learned = {{0, piece.tokens.size()}};
    return piece;
  }

  std::optional<uint64_t> pieces() const override { return pieces_; }
  std::string description() const override { return description_; }
  std::vector<fs::path> files() const override { return files_.files(); }

 private:
  IndexedTokens::Item token_range(uint64_t index) const {
    if (order_ == rwkv_lm) return {int64_t(sample_context(index, pieces_)) * length_, length_ + 1};
    const auto number = int64_t(order_ == shuffled_order ? shuffled_epochs(index, pieces_, seed_)
                                                         : index % pieces_);
    if (length_ == 0) return files_.item(number);
    return {number * length_, std::min(length_, tokens_ - number * length_)};
  }

  IndexedTokens files_;
  int64_t length_ = 0, tokens_ = 0;
  size_t order_ = file_order;
  uint64_t seed_ = 0, pieces_ = 0;
  std::string description_;
};

}  // namespace

uint64_t sample_prime(uint64_t contexts) {
  for (uint64_t prime = contexts > 0 ? contexts - 1 : 0; prime > 1; --prime)
    if (prime % 3 == 2 && is_prime(prime)) return prime;
  return 0;
}

uint64_t sample_context(uint64_t index, uint64_t prime) {
  const auto factor = uint64_t(double(prime) * (std::sqrt(5.0) - 1) / 2);
  const uint64_t i = (index % prime + 1) % prime;
  return multiply_mod(factor, multiply_mod(multiply_mod(i, i, prime), i, prime), prime);
}

std::unique_ptr<Source> open_indexed(std::string_view rest) {
  return std::make_unique<Indexed>(Options("binidx", rest, Options::Subject::required));
}

}  // namespace deltasane::corpus
