// Every parser of untrusted bytes, behind one kind of function: for the fuzzers (fuzzer.cpp), for
// the files they have found (corpus_test.cpp) and for damaged files (damage_test.cpp).
//
// To add a parser: a function here and in one of the files *_targets.cpp, a row in targets.cpp, its
// name in CMakeLists.txt, and a few small files in corpus/NAME/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace deltasane::fuzz {

// What was understood, as a number that differs where the meaning does; none where the bytes are
// refused. Error is a refusal, too; anything else that leaves a parser is a defect.
using Meaning = std::optional<uint64_t>;
using Bytes = std::span<const std::byte>;

Meaning safetensors(Bytes bytes);
Meaning gguf(Bytes bytes);
Meaning pth(Bytes bytes);
Meaning pickle(Bytes bytes);
Meaning rwkvcpp(Bytes bytes);
Meaning npy(Bytes bytes);
Meaning indexed_tokens(Bytes bytes);
Meaning json_walk(Bytes bytes);
Meaning json_text(Bytes bytes);
Meaning vocabulary(Bytes bytes);
Meaning answers(Bytes bytes);
Meaning tokenizer_json(Bytes bytes);
Meaning toml(Bytes bytes);
Meaning seal(Bytes bytes);

// Data sets and suites.
Meaning parquet(Bytes bytes);
Meaning codec(Bytes bytes);
Meaning chat_rows(Bytes bytes);
Meaning problems(Bytes bytes);
Meaning suite(Bytes bytes);

// These need more of the program.
Meaning model(Bytes bytes);
Meaning state(Bytes bytes);
Meaning records(Bytes bytes);
Meaning importance(Bytes bytes);
Meaning config(Bytes bytes);

// What the server reads from strangers.
Meaning http_request(Bytes bytes);
Meaning request_body(Bytes bytes);
Meaning response_items(Bytes bytes);
Meaning json_schema(Bytes bytes);
Meaning grammar(Bytes bytes);

struct Target {
  std::string_view name;  // of the function, of its fuzzer and of its folder in corpus/
  Meaning (*parser)(Bytes bytes);
  bool sealed = false;  // a checksum covers all that has a meaning
};
std::span<const Target> targets();

Meaning parse(const Target& target, Bytes bytes);  // takes an Error for a refusal

}  // namespace deltasane::fuzz
