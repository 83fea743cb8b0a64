// Where files are mapped, for a handler of SIGBUS: a mapped file that another program makes shorter
// raises that signal at the next look, and only the address says which file it was.
#pragma once

#include <cstddef>
#include <filesystem>

namespace deltasane {

// Remembers a mapping; returns its place in the table, or -1 where that is full.
int remember_mapping(const void* begin, size_t size, const std::filesystem::path& path);
void forget_mapping(int place);

// Ends the process with a message that names the file. For programs, not for libraries: anything
// else that raises SIGBUS is left to what was there before.
void end_with_message_on_vanished_bytes();

}  // namespace deltasane
