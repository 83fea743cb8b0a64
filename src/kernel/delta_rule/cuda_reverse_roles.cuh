// Who does what on the way back through the states (cuda_reverse.cu), and in which order the code
// for it lies in memory: both by measurement.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <type_traits>

namespace deltasane::kernel::cuda {

// What the warps of a block do that has so many groups of 16 rows, with SANE or without. Warps that
// are four apart share a scheduler. A single owner, whom all wait for, has one for itself, and
// others have for company who leaves it most of the time.
enum class Role { owner, product_maker, vector_maker, slope_maker };
struct Duty {
  Role role;
  int which;  // of the warps with that role
};
template <int groups, bool sane>
struct Duties {  // each group has an owner
  static constexpr int warps = groups + 4;
  static constexpr Duty of(int warp) {
    if (warp < groups) return {Role::owner, warp};
    const int maker = warp - groups;
    return {maker < 2 ? Role::product_maker : Role::vector_maker, maker % 2};
  }
};
template <>
struct Duties<1, true> {
  static constexpr int warps = 6;
  static constexpr Duty of(int warp) {
    constexpr Duty all[warps] = {{Role::slope_maker, 0},   {Role::product_maker, 1},
                                 {Role::vector_maker, 0},  {Role::owner, 0},
                                 {Role::product_maker, 0}, {Role::vector_maker, 1}};
    return all[warp];
  }
};
template <>
struct Duties<1, false> {
  static constexpr int warps = 5;
  static constexpr Duty of(int warp) {
    constexpr Duty all[warps] = {{Role::product_maker, 0},
                                 {Role::vector_maker, 0},
                                 {Role::vector_maker, 1},
                                 {Role::owner, 0},
                                 {Role::product_maker, 1}};
    return all[warp];
  }
};

template <int groups, bool sane>
struct Roles {
  static constexpr int threads = 32 * Duties<groups, sane>::warps;
  // Four bits of each warp: no memory has to be asked.
  static constexpr uint64_t packed = [] {
    uint64_t bits = 0;
    for (int warp = 0; warp < Duties<groups, sane>::warps; ++warp) {
      const Duty duty = Duties<groups, sane>::of(warp);
      bits |= uint64_t(int(duty.role) * 4 + duty.which) << warp * 4;
    }
    return bits;
  }();
  static_assert([] {
    for (int warp = 0; warp < Duties<groups, sane>::warps; ++warp) {
      const Duty duty = Duties<groups, sane>::of(warp);
      const bool has_rows = duty.role == Role::owner || duty.role == Role::slope_maker;
      if (has_rows && duty.which != warp % groups) return false;
    }
    return true;
  }());  // OwnColumns finds a warp's rows so
  __device__ static int duty() { return int(packed >> threadIdx.x / 32 * 4 & 15); }
  __device__ static Role role() { return Role(duty() / 4); }
  // Of the threads with its role, which one a thread is.
  __device__ static int thread() { return duty() % 4 * 32 + threadIdx.x % 32; }
};

// Calls play<role>() for the one of these that a thread has. The order decides where their code
// lies.
template <Role... in_order>
struct CodeOrder {
  template <class Play>
  __device__ static void choose(Role role, Play&& play) {
    (void)((role == in_order && (play.template operator()<in_order>(), true)) || ...);
  }
};
// For one sequence with SANE others take up to 10 % longer, for many heads up to 1.
template <int groups, bool sane>
using BestOrder = std::conditional_t<
    !sane, CodeOrder<Role::product_maker, Role::vector_maker, Role::owner>,
    std::conditional_t<
        groups == 1,
        CodeOrder<Role::owner, Role::product_maker, Role::slope_maker, Role::vector_maker>,
        CodeOrder<Role::owner, Role::product_maker, Role::vector_maker>>>;

}  // namespace deltasane::kernel::cuda
