// The page that shows sessions live, and a plain chat: one HTML file without anything from outside,
// made of the files in this folder when the program is built.
#pragma once

#include <string>

namespace deltasane::serve {

struct Page {
  std::string html;
  std::string policy;  // Content-Security-Policy: its own script and style, and this server
};

const Page& page_of_sessions();

}  // namespace deltasane::serve
