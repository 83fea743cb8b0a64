#include "comm/socket/secret.h"

#include <sys/random.h>
#include <sys/stat.h>

#include <bit>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "base/error.h"
#include "base/io/file.h"

namespace deltasane::comm {
namespace {

constexpr size_t block_bytes = 64, least_secret = 16;

// The first 32 bits of the fractional parts of the cube roots of the first 64 primes.
constexpr uint32_t round_constants[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

uint32_t big_endian(const std::byte* at) {
  return uint32_t(at[0]) << 24 | uint32_t(at[1]) << 16 | uint32_t(at[2]) << 8 | uint32_t(at[3]);
}

void add_block(std::array<uint32_t, 8>& hash, const std::byte* block) {
  uint32_t w[64];
  for (size_t i = 0; i < 16; ++i) w[i] = big_endian(block + 4 * i);
  for (size_t i = 16; i < 64; ++i) {
    const uint32_t low = std::rotr(w[i - 15], 7) ^ std::rotr(w[i - 15], 18) ^ (w[i - 15] >> 3);
    const uint32_t high = std::rotr(w[i - 2], 17) ^ std::rotr(w[i - 2], 19) ^ (w[i - 2] >> 10);
    w[i] = w[i - 16] + low + w[i - 7] + high;
  }
  auto [a, b, c, d, e, f, g, h] = hash;
  for (size_t i = 0; i < 64; ++i) {
    const uint32_t high = std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25);
    const uint32_t first = h + high + ((e & f) ^ (~e & g)) + round_constants[i] + w[i];
    const uint32_t low = std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22);
    const uint32_t second = low + ((a & b) ^ (a & c) ^ (b & c));
    h = g, g = f, f = e, e = d + first, d = c, c = b, b = a, a = first + second;
  }
  const uint32_t mixed[8] = {a, b, c, d, e, f, g, h};
  for (size_t i = 0; i < 8; ++i) hash[i] += mixed[i];
}

}  // namespace

Tag sha256(std::span<const std::byte> bytes) {
  std::vector<std::byte> padded(bytes.begin(), bytes.end());
  padded.push_back(std::byte{0x80});
  while (padded.size() % block_bytes != block_bytes - 8) padded.push_back(std::byte{0});
  for (int shift = 56; shift >= 0; shift -= 8)
    padded.push_back(std::byte(uint64_t{bytes.size()} * 8 >> shift & 255));
  std::array<uint32_t, 8> hash{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                               0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  for (size_t at = 0; at < padded.size(); at += block_bytes) add_block(hash, padded.data() + at);
  Tag tag;
  for (size_t i = 0; i < tag.size(); ++i) tag[i] = std::byte(hash[i / 4] >> (24 - 8 * (i % 4)));
  return tag;
}

Tag hmac_sha256(std::string_view key, std::span<const std::byte> bytes) {
  std::array<std::byte, block_bytes> block{};
  if (key.size() > block_bytes) {
    const Tag shortened = sha256(std::as_bytes(std::span(key)));
    std::memcpy(block.data(), shortened.data(), shortened.size());
  } else {
    std::memcpy(block.data(), key.data(), key.size());
  }
  const auto padded_with = [&](std::byte pad) {
    std::vector<std::byte> text;
    for (const std::byte one : block) text.push_back(one ^ pad);
    return text;
  };
  std::vector<std::byte> inner = padded_with(std::byte{0x36});
  inner.insert(inner.end(), bytes.begin(), bytes.end());
  const Tag inside = sha256(inner);
  std::vector<std::byte> outer = padded_with(std::byte{0x5c});
  outer.insert(outer.end(), inside.begin(), inside.end());
  return sha256(outer);
}

bool equal_in_constant_time(const Tag& a, const Tag& b) {
  volatile uint8_t differing = 0;
  for (size_t i = 0; i < a.size(); ++i) differing = differing | uint8_t(a[i] ^ b[i]);
  return differing == 0;
}

Nonce random_nonce() {
  Nonce nonce;
  if (::getrandom(nonce.data(), nonce.size(), 0) != ssize_t(nonce.size()))
    fail(Fault::device,
         "random numbers: expected some of the system, found: ", std::strerror(errno));
  return nonce;
}

std::string secret_from_environment() {
  const char* const given = std::getenv("DELTASANE_SECRET");
  const char* const file = std::getenv("DELTASANE_SECRET_FILE");
  if (!given && !file) return {};
  std::string secret = given ? given : "";
  const char* const source = given ? "DELTASANE_SECRET" : "DELTASANE_SECRET_FILE";
  if (!given) {
    struct stat status;
    if (::stat(file, &status) == 0 && (status.st_mode & 077) != 0)
      fail(Fault::usage, source, ": ", file,
           ": expected a file that only its owner may read, found one for others; chmod 600 it");
    secret = read_file(file);
    secret.resize(std::min(secret.size(), secret.find('\n')));
  }
  if (secret.size() < least_secret)
    fail(Fault::usage, source, ": expected at least ", least_secret, " characters, found ",
         secret.size());
  return secret;
}

}  // namespace deltasane::comm
