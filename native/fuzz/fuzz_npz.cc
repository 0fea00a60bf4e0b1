// Any bytes as an npz archive, whose directory stands where its last bytes say.
#include "core/npz.h"

namespace npz = ferry::npz;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  const ferry::Input input(data, size - 2);
  const std::uint64_t start = data[size - 2] | data[size - 1] << 8;
  for (std::uint64_t count = 0; count < 3; ++count) {
    npz::Archive archive;
    if (!npz::read(input.span(), start, size - 2, count, archive)) continue;
    if (archive.members.size() != count) __builtin_trap();
    std::uint64_t before = 0;
    for (const npz::Member& member : archive.members) {
      if (member.begin < before || member.end < member.begin || member.end > start) __builtin_trap();
      before = member.end;
      if (!member.is_array) continue;
      if (member.values < member.begin || member.values > member.end) __builtin_trap();
      if (member.dims + member.rank > archive.dims.size()) __builtin_trap();
    }
  }
  return 0;
}
