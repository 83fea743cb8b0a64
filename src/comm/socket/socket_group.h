// A job whose processes were started by hand or by a script, with no launcher:
//
//   DELTASANE_SIZE=2 DELTASANE_RANK=0 deltasane train CONFIG &
//   DELTASANE_SIZE=2 DELTASANE_RANK=1 deltasane train CONFIG
//
// DELTASANE_ADDRESS is the address of rank 0: HOST:PORT, or the path of a local socket, which
// begins with '/'. All others connect to rank 0, which sums in the order of the ranks, so equal
// jobs give equal bits. Reductions run in finish_all_reduces and overlap with nothing.
//
// A process joins by a tag that only one with the same secret can compute (secret.h): DELTASANE_SECRET
// or DELTASANE_SECRET_FILE, required where other machines can connect. Anyone else who connects at
// the start is ignored. What is sent afterwards is neither encrypted nor signed: whoever can read or
// change the traffic on the way can read the gradients or change them.
//
// If one process exits, for whatever reason, all others fail with a message.
#pragma once

#include <string>

#include "comm/group.h"

namespace deltasane::comm {

struct SocketGroupSettings {
  int rank = 0, size = 1;
  std::string address = "127.0.0.1:29417";
  double timeout = 60;  // seconds to wait for the others at the start
  std::string secret{};
};

std::unique_ptr<Group> socket_group(const SocketGroupSettings& settings);

}  // namespace deltasane::comm
