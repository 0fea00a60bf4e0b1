// Any bytes as an HDF5 file of the usual form.
#include "core/hdf5.h"

namespace hdf5 = ferry::hdf5;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const ferry::Input input(data, size);
  hdf5::Objects found;
  if (!hdf5::read(input.span(), 100, found)) return 0;
  if (found.objects.empty() || found.objects[0].dtype != nullptr) __builtin_trap();
  for (const hdf5::Object& object : found.objects) {
    if (object.attributes + object.attribute_count > found.attributes.size()) __builtin_trap();
    if (object.dtype == nullptr) continue;
    if (object.values > size || object.nbytes == 0 || object.nbytes > size - object.values) {
      __builtin_trap();
    }
    std::uint64_t values = 1;
    for (std::size_t axis = 0; axis < object.rank; ++axis) values *= found.dims[object.dims + axis];
    if (object.nbytes % values != 0 || object.nbytes / values > 8) __builtin_trap();
  }
  return 0;
}
