#include "model/sane.h"

#include <charconv>
#include <cmath>

#include "base/printable.h"
#include "kernel/sane/tau.h"

namespace deltasane {
namespace {

template <class Number>
std::optional<Number> parsed(const Metadata& metadata, const char* key, std::string_view where) {
  const auto found = metadata.find(key);
  if (found == metadata.end()) return std::nullopt;
  const std::string& text = found->second;
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size())
    fail(Fault::file, where, ": ", key, ": expected a number, found ", printable(text));
  return number;
}

template <class Number>
std::optional<Number> number_after(std::string_view before, const std::string& text) {
  const size_t at = text.find(before);
  if (at == text.npos) return std::nullopt;
  Number number{};
  const char* const from = text.data() + at + before.size();
  if (std::from_chars(from, text.data() + text.size(), number).ec != std::errc())
    fail(Fault::file, "SANE: expected a number after '", before, "', found '", printable(text), "'");
  return number;
}

}  // namespace

std::string_view name_of(SaneKind kind) {
  return kind == SaneKind::none ? "none" : kind == SaneKind::trained ? "trained" : "run-time";
}

std::string to_string(const SaneUse& sane) {
  if (sane.kind == SaneKind::none) return "no SANE";
  return cat(name_of(sane.kind), " SANE with alpha ", sane.alpha, ", chunk ", sane.chunk);
}

std::optional<double> alpha_in(const std::string& text) {
  return number_after<double>("SANE with alpha ", text);
}

std::optional<int64_t> chunk_in(const std::string& text) {
  if (!alpha_in(text)) return std::nullopt;
  return number_after<int64_t>(", chunk ", text);
}

std::optional<SaneSettings> sane_settings(bool has_tensors, const Metadata& metadata,
                                          std::string_view where) {
  const auto alpha = parsed<double>(metadata, "sane.alpha", where);
  const auto chunk = parsed<int64_t>(metadata, "sane.chunk", where);
  if (!has_tensors && !alpha && !chunk) return std::nullopt;
  if (!has_tensors)
    fail(Fault::file, where, ": sane.", alpha ? "alpha" : "chunk",
         ": expected the SANE tensors with it, found none");
  if (!alpha)
    fail(Fault::file, where, ": expected the metadata sane.alpha beside the SANE tensors, found ",
         "none");
  if (!chunk)
    fail(Fault::file, where, ": expected the metadata sane.chunk beside the SANE tensors, found ",
         "none");
  if (!std::isfinite(*alpha) || *alpha <= 0)
    fail(Fault::file, where, ": sane.alpha: expected a positive number, found ", *alpha);
  if (*chunk < 1 || *chunk > (int64_t{1} << 30))
    fail(Fault::file, where, ": sane.chunk: expected 1 to 2^30 tokens, found ", *chunk);
  return SaneSettings{*alpha, *chunk};
}

Metadata sane_metadata(const std::optional<SaneSettings>& sane) {
  if (!sane) return {};
  return {{"sane.alpha", cat(sane->alpha)}, {"sane.chunk", cat(sane->chunk)}};
}

void expect_valid(const SaneSettings& wanted) {
  if (!(wanted.alpha > 0 && wanted.alpha <= largest_alpha))
    fail(Fault::usage, "alpha: expected a number above 0, up to ", largest_alpha, ", found ",
         wanted.alpha);
  if (wanted.chunk < 1)
    fail(Fault::usage, "chunk: expected a number of tokens above 0, found ", wanted.chunk);
}

bool wants_graft(const std::optional<SaneSettings>& trained,
                 const std::optional<SaneSettings>& wanted, std::string_view where) {
  if (!wanted) return false;
  expect_valid(*wanted);
  if (trained && *trained != *wanted)
    fail(Fault::usage, "SANE: ", where, " was trained with alpha ", trained->alpha, " and chunk ",
         trained->chunk, "; expected the same or none, found ", wanted->alpha, " and ",
         wanted->chunk);
  return !trained;
}

bool is_run_time_alpha(double alpha) {
  return alpha <= largest_alpha && alpha != 0 && kernel::tau_at_zero(alpha) > 0;
}

SaneUse chosen_sane(const std::optional<SaneSettings>& trained, const SaneChoice& choice,
                    std::string_view where) {
  if (choice.alpha && choice.none)
    fail(Fault::usage, "SANE: expected an alpha or none at all, found both");
  if (choice.alpha && *choice.alpha > largest_alpha)
    fail(Fault::usage, "SANE's alpha: expected at most ", largest_alpha, ", found ", *choice.alpha);
  if (choice.alpha && !is_run_time_alpha(*choice.alpha))
    fail(Fault::usage, "SANE's alpha: expected a number above -1.44 other than 0 (tau = alpha ln 2 + 1 "
         "must be positive), found ", *choice.alpha);
  if (choice.none || (!trained && !choice.alpha)) return {};
  if (!trained) return {SaneKind::run_time, *choice.alpha, default_sane_chunk};
  if (choice.alpha)
    fail(Fault::usage, "SANE's alpha: ", where, " was trained with SANE, alpha ", trained->alpha,
         "; run it as it was trained, or without SANE");
  return {SaneKind::trained, trained->alpha, trained->chunk};
}

}  // namespace deltasane
