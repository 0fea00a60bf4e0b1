// Any bytes as a TensorProto: scanned, then every field decoded in every way its dtypes allow.
#include "core/strings.h"
#include "core/tensorproto.h"

namespace tensorproto = ferry::tensorproto;
using tensorproto::Kind;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const ferry::Input whole(data, size);
  const ferry::Span input = whole.span();
  const tensorproto::Values layouts[] = {
      {5, Kind::fixed, 32, 4, 1},           {6, Kind::fixed, 64, 8, 1},
      {7, Kind::signed_integer, 32, 4, 1},  {7, Kind::unsigned_integer, 8, 1, 1},
      {7, Kind::signed_integer, 4, 1, 1},   {7, Kind::unsigned_integer, 2, 1, 1},
      {9, Kind::fixed, 32, 4, 2},           {10, Kind::signed_integer, 64, 8, 1},
      {11, Kind::boolean, 1, 1, 1},         {12, Kind::fixed, 64, 8, 2},
      {13, Kind::unsigned_integer, 16, 2, 1}, {16, Kind::unsigned_integer, 32, 4, 1},
      {17, Kind::unsigned_integer, 64, 8, 1}, {18, Kind::unsigned_integer, 8, 1, 1},
  };
  try {
    const tensorproto::Tensor tensor = tensorproto::scan(input);
    if (tensor.content.size > 0) {
      if (tensor.content.offset() + tensor.content.size > size) __builtin_trap();
      try {
        ferry::decode_string_list(tensor.content, tensor.elements);
      } catch (const ferry::Error&) {
      }
    }
    for (const ferry::Span& string : tensorproto::string_values(input)) {
      if (string.offset() + string.size > size) __builtin_trap();
    }
    const std::size_t elements = tensor.elements < 100 ? tensor.elements : 100;
    for (const auto& layout : layouts) {
      std::vector<std::uint8_t> out(elements * layout.width * layout.group);
      try {
        tensorproto::fill(input, layout, out.data(), out.size());
      } catch (const ferry::Error& error) {
        if (error.offset() > size) __builtin_trap();
      }
    }
  } catch (const ferry::Error& error) {
    if (error.offset() > size) __builtin_trap();
  }
  return 0;
}
