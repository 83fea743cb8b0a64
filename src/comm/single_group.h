// A job of one process: nothing to send.
#pragma once

#include "comm/group.h"

namespace deltasane::comm {

std::unique_ptr<Group> single_group();

}  // namespace deltasane::comm
