// A job whose processes were started by hand or by a script, with no launcher:
//
//   DELTASANE_SIZE=2 DELTASANE_RANK=0 deltasane train CONFIG &
//   DELTASANE_SIZE=2 DELTASANE_RANK=1 deltasane train CONFIG
//
// DELTASANE_ADDRESS says where rank 0 is found: HOST:PORT, or the path of a local socket, which
// begins with '/'. All others talk to rank 0, which adds up in the order of the ranks: equal jobs
// give equal bits. Sums are made in finish_sums, while nothing else is done.
//
// A process that ends, for whatever reason, ends the job: every other one fails with a message.
#pragma once

#include <string>

#include "comm/group.h"

namespace deltasane::comm {

struct SocketPlace {
  int rank = 0, size = 1;
  std::string address = "127.0.0.1:29417";
  double patience = 60;  // seconds to wait for the others when the job begins
};

std::unique_ptr<Group> socket_group(const SocketPlace& place);

}  // namespace deltasane::comm
