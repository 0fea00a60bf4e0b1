// HighwayHash.
#include "core/highwayhash.h"

#include "python.h"

namespace ferry::python {

namespace {

std::uint64_t hash(nb::handle source, nb::bytes key) {
  HighwayKey lanes;
  if (key.size() != sizeof(lanes)) throw nb::value_error("a key of HighwayHash has 32 bytes");
  std::memcpy(lanes.data(), key.c_str(), sizeof(lanes));
  Buffer buffer(source);
  const Unlocked unlocked;
  return highway_hash(lanes, buffer.data(), buffer.size());
}

}  // namespace

void bind_highwayhash(nb::module_& module) {
  module.def("highway_hash", hash, "source"_a, "key"_a, "The HighwayHash of 64 bits of a buffer.");
}

}  // namespace ferry::python
