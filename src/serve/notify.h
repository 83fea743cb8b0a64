// Tells systemd what the server does (sd_notify): "READY=1", "STOPPING=1". Does nothing where nobody
// wants to know (NOTIFY_SOCKET).
#pragma once

#include <string_view>

namespace deltasane::serve {

void notify_systemd(std::string_view message);

}  // namespace deltasane::serve
