// Which processes of a job run on one machine.
#pragma once

#include "comm/group.h"

namespace deltasane::comm {

struct PlaceOnMachine {
  int rank, size;  // among the job's processes on this machine
};
PlaceOnMachine place_on_machine(Group& group);

}  // namespace deltasane::comm
