// The roles of warps in the backward pass through the states (state_backward.cu), and in which
// order their code is in memory: both chosen by measurement.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <type_traits>

namespace deltasane::kernel::cuda {

// The roles of a block's warps, for a block with so many groups of 16 rows, with SANE or without.
// Warps that are four apart share a scheduler. A single consumer, which all others wait for, has a
// scheduler for itself; others share theirs with warps that leave it idle most of the time.
enum class Role { consumer, product_producer, vector_producer, derivative_producer };
struct WarpRole {
  Role role;
  int index;  // of the warps with that role
};
template <int groups, bool sane>
struct WarpRoles {  // each group has a consumer
  static constexpr int warps = groups + 4;
  static constexpr WarpRole of(int warp) {
    if (warp < groups) return {Role::consumer, warp};
    const int producer = warp - groups;
    return {producer < 2 ? Role::product_producer : Role::vector_producer, producer % 2};
  }
};
template <>
struct WarpRoles<1, true> {
  static constexpr int warps = 6;
  static constexpr WarpRole of(int warp) {
    constexpr WarpRole all[warps] = {{Role::derivative_producer, 0}, {Role::product_producer, 1},
                                     {Role::vector_producer, 0},     {Role::consumer, 0},
                                     {Role::product_producer, 0},    {Role::vector_producer, 1}};
    return all[warp];
  }
};
template <>
struct WarpRoles<1, false> {
  static constexpr int warps = 5;
  static constexpr WarpRole of(int warp) {
    constexpr WarpRole all[warps] = {{Role::product_producer, 0},
                                     {Role::vector_producer, 0},
                                     {Role::vector_producer, 1},
                                     {Role::consumer, 0},
                                     {Role::product_producer, 1}};
    return all[warp];
  }
};

template <int groups, bool sane>
struct ThreadRole {
  static constexpr int threads = 32 * WarpRoles<groups, sane>::warps;
  // Four bits for each warp: no table in memory has to be read.
  static constexpr uint64_t packed = [] {
    uint64_t bits = 0;
    for (int warp = 0; warp < WarpRoles<groups, sane>::warps; ++warp) {
      const WarpRole one = WarpRoles<groups, sane>::of(warp);
      bits |= uint64_t(int(one.role) * 4 + one.index) << warp * 4;
    }
    return bits;
  }();
  static_assert([] {
    for (int warp = 0; warp < WarpRoles<groups, sane>::warps; ++warp) {
      const WarpRole one = WarpRoles<groups, sane>::of(warp);
      const bool has_rows = one.role == Role::consumer || one.role == Role::derivative_producer;
      if (has_rows && one.index != warp % groups) return false;
    }
    return true;
  }());  // StateFragment computes a warp's rows so
  __device__ static int bits() { return int(packed >> threadIdx.x / 32 * 4 & 15); }
  __device__ static Role role() { return Role(bits() / 4); }
  // The number of this thread among those with its role.
  __device__ static int thread() { return bits() % 4 * 32 + threadIdx.x % 32; }
};

// Calls body<role>() for the role of a thread. The order decides where the code of each is.
template <Role... in_order>
struct CodeOrder {
  template <class Body>
  __device__ static void choose(Role role, Body&& body) {
    (void)((role == in_order && (body.template operator()<in_order>(), true)) || ...);
  }
};
// Other orders take up to 10 % longer for one sequence with SANE, and up to 1 % for many heads.
template <int groups, bool sane>
using BestCodeOrder = std::conditional_t<
    !sane, CodeOrder<Role::product_producer, Role::vector_producer, Role::consumer>,
    std::conditional_t<groups == 1,
                       CodeOrder<Role::consumer, Role::product_producer, Role::derivative_producer,
                                 Role::vector_producer>,
                       CodeOrder<Role::consumer, Role::product_producer, Role::vector_producer>>>;

}  // namespace deltasane::kernel::cuda
