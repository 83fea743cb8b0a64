// Losses of single tokens in one byte each.
//
//     code c < 192:  c / 16 nats
//     code c >= 192: 12 * 2^((c - 192) / 16) nats, up to 184
//
// The rounding error of a token is added to the next token's loss before that is rounded. So the sum of
// the decoded losses of any tokens in a row differs from the true sum by no more than one step, and a mean
// over 50 tokens by a 50th of it: 1/800 nat below 12 nats. Each sequence of codes begins without an error.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace deltasane::probe {

inline constexpr double loss_step = 1.0 / 16;  // below 12 nats

double loss_of_code(uint8_t code);

// Losses are finite and not negative; beyond the largest code they count as that.
std::string loss_codes(std::span<const double> losses);

}  // namespace deltasane::probe
