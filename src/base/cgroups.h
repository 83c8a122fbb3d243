// Which control groups of Linux limit this process.
#ifndef SPRAT_BASE_CGROUPS_H_
#define SPRAT_BASE_CGROUPS_H_

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace sprat {

// Directories whose files hold the limits of one controller, from the root of a hierarchy down to
// the process's own group.
struct Cgroups {
  std::vector<std::filesystem::path> v2;
  std::vector<std::filesystem::path> v1;
};

// Those of `controller` ("cpu", "memory").
//   cgroup_text: the content of /proc/self/cgroup.
//   mount: where cgroups are mounted, /sys/fs/cgroup. In a container the mount's root is often the
//     process's own cgroup, so the root itself is among them.
// Source: Linux, Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/cgroups.rst.
Cgroups CgroupsOf(std::string_view cgroup_text, const std::filesystem::path& mount,
                  std::string_view controller);

// The lines of a file of the kernel's; as far as it can be read.
std::string SystemText(const std::filesystem::path& path);

// The content of /proc/self/cgroup; "" where there is none.
std::string OwnCgroupText();

}  // namespace sprat

#endif  // SPRAT_BASE_CGROUPS_H_
