#include "fuzz/targets.h"

#include "base/error.h"

namespace deltasane::fuzz {
namespace {

constexpr Target all[] = {
    {"safetensors", safetensors},
    {"gguf", gguf},
    {"pth", pth, true},
    {"pickle", pickle},
    {"rwkvcpp", rwkvcpp},
    {"npy", npy},
    {"indexed_tokens", indexed_tokens},
    {"json_walk", json_walk},
    {"json_text", json_text},
    {"vocabulary", vocabulary},
    {"answers", answers},
    {"tokenizer_json", tokenizer_json},
    {"toml", toml},
    {"seal", seal, true},
    {"parquet", parquet},
    {"codec", codec},
    {"chat_rows", chat_rows},
    {"problems", problems},
    {"suite", suite},
    {"model", model},
    {"state", state, true},
    {"records", records},  // cut where rows end, it is a shorter table
    {"importance", importance},
    {"config", config},
    {"http_request", http_request},
    {"request_body", request_body},
    {"response_items", response_items},
    {"json_schema", json_schema},
    {"grammar", grammar},
};

}  // namespace

std::span<const Target> targets() { return all; }

Meaning parse(const Target& target, Bytes bytes) {
  try {
    return target.parser(bytes);
  } catch (const Error&) {
    return std::nullopt;
  }
}

}  // namespace deltasane::fuzz
