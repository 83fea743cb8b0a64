#include "house/bare.h"

#include <algorithm>
#include <set>

#include "base/cat.h"
#include "house/text.h"

namespace deltasane::house {

namespace {

namespace fs = std::filesystem;

const std::set<std::string_view> system_folders{"arpa",  "asm", "asm-generic", "bits", "c++", "gnu",
                                                "linux", "net", "netinet",     "rpc",  "sys"};

const std::set<std::string_view> system_headers{
    "aio",      "alloca",          "assert",    "byteswap", "complex", "ctype",    "cxxabi",
    "dirent",   "dlfcn",           "elf",       "endian",   "errno",   "execinfo", "fcntl",
    "features", "features-time64", "fenv",      "float",    "fnmatch", "getopt",   "glob",
    "ifaddrs",  "inttypes",        "langinfo",  "libgen",   "libintl", "limits",   "link",
    "locale",   "malloc",          "math",      "memory",   "netdb",   "poll",     "pthread",
    "pwd",      "sched",           "semaphore", "setjmp",   "signal",  "spawn",    "stdc-predef",
    "stdint",   "stdio",           "stdlib",    "string",   "strings", "syscall",  "termios",
    "time",     "ucontext",        "unistd",    "wchar",    "wctype",  "xlocale"};

bool below(const fs::path& path, const fs::path& folder) {
  const fs::path relative = path.lexically_relative(folder.lexically_normal());
  return !relative.empty() && *relative.begin() != "..";
}

// /usr/include/stdio.h, /usr/include/sys/mman.h, /usr/include/aarch64-linux-gnu/bits/wordsize.h
bool is_system(const fs::path& path) {
  if (path.string().find("/lib/gcc") != std::string::npos ||
      path.string().find("/lib/clang") != std::string::npos)
    return true;
  const fs::path relative = path.lexically_relative("/usr/include");
  std::vector<std::string> parts;
  for (const fs::path& part : relative) parts.push_back(part.string());
  if (parts.size() > 1 && parts[0].find("-linux-") != std::string::npos) parts.erase(parts.begin());
  if (parts.size() > 1) return system_folders.contains(parts[0]);
  return parts.size() == 1 && parts[0].ends_with(".h") &&
         system_headers.contains(std::string_view(parts[0]).substr(0, parts[0].size() - 2));
}

}  // namespace

Findings check_headers(std::string_view dependencies, const fs::path& source,
                       const fs::path& headers) {
  Findings findings;
  std::string object;
  std::set<std::string> seen;
  for (const std::string_view line : lines_of(dependencies)) {
    if (!line.starts_with(' ')) {
      object = line.substr(0, line.find(':'));
      continue;
    }
    const fs::path path = fs::path(trimmed(line)).lexically_normal();
    if (path.is_relative() || below(path, source) || below(path, headers) || is_system(path))
      continue;
    if (seen.insert(path.string()).second)
      findings.push_back({object, cat("uses ", path.string(), " of this machine")});
  }
  return findings;
}

Findings check_shared_libraries(std::string_view dynamic) {
  constexpr std::string_view allowed[]{"libstdc++.so*", "libm.so*",       "libgcc_s.so*",
                                       "libc.so*",      "libpthread.so*", "ld-linux*"};
  Findings findings;
  for (const std::string_view line : lines_of(dynamic)) {
    const size_t open = line.find('[');
    if (line.find("(NEEDED)") == line.npos || open == line.npos) continue;
    const std::string_view name = line.substr(open + 1, line.find(']') - open - 1);
    if (std::ranges::none_of(allowed, [&](auto pattern) { return matches(name, pattern); }))
      findings.push_back({std::string(name), "is linked, and is not of the compiler"});
  }
  return findings;
}

}  // namespace deltasane::house
