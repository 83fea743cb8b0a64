// API keys: who may use the server, and whose states are whose.
//
// A key is compared by a hash under a secret of this process, in constant time, with every key that
// is known: how long that takes says nothing about a key.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/io/file.h"

namespace deltasane::serve {

class Keys {
 public:
  Keys();

  void add(std::string_view key);         // 8 to 256 printable characters without spaces
  void add_file(const fs::path& path);    // one a line; empty lines and those with # are left out
  bool empty() const { return hashes_.empty(); }

  // The owner that a header "Authorization: Bearer KEY" names: "key-" and digits, the same in every
  // process that has the key; "" where no keys are in force; nothing where the key is not known.
  std::optional<std::string> owner(std::string_view authorization) const;

 private:
  using Hash = std::array<uint64_t, 2>;
  Hash hash_of(std::string_view key) const;

  uint64_t secret_;
  std::vector<Hash> hashes_;
  std::vector<std::string> owners_;
};

std::string random_id(std::string_view prefix);  // and 32 hexadecimal digits of the system's

}  // namespace deltasane::serve
