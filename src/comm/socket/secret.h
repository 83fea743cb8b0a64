// A secret that the processes of a job share, and how one shows that it has it without sending it:
// HMAC-SHA-256 (RFC 2104, FIPS 180-4) of what both sides have just drawn at random.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace deltasane::comm {

using Tag = std::array<std::byte, 32>;
using Nonce = std::array<std::byte, 32>;

Tag sha256(std::span<const std::byte> bytes);
Tag hmac_sha256(std::string_view key, std::span<const std::byte> bytes);

// In a time that does not depend on where they differ.
bool equal_in_constant_time(const Tag& a, const Tag& b);

Nonce random_nonce();

// DELTASANE_SECRET, or the first line of the file DELTASANE_SECRET_FILE, which others may not read;
// empty where neither is set. One of less than 16 characters is refused.
std::string secret_from_environment();

}  // namespace deltasane::comm
