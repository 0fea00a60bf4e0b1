#include "safetensors.h"

#include <algorithm>
#include <limits>
#include <tuple>
#include <unordered_set>

#include "text.h"

namespace ferry::safetensors {

namespace {

constexpr std::string_view metadata_name = "__metadata__";
constexpr std::uint64_t max_size = std::numeric_limits<std::int64_t>::max();

struct Dtype {
  std::string_view name;
  unsigned bits;
};

constexpr Dtype dtypes[] = {
    {"F32", 32},    {"BF16", 16},   {"F16", 16},    {"I64", 64},        {"F64", 64},
    {"I32", 32},    {"U8", 8},      {"I8", 8},      {"BOOL", 8},        {"U16", 16},
    {"I16", 16},    {"U32", 32},    {"U64", 64},    {"C64", 64},        {"F8_E4M3", 8},
    {"F8_E5M2", 8}, {"F8_E8M0", 8}, {"F4", 4},      {"F8_E4M3FNUZ", 8}, {"F8_E5M2FNUZ", 8},
    {"F6_E2M3", 6}, {"F6_E3M2", 6},
};

// 0 if there is no such dtype.
unsigned bits_of(std::string_view dtype) {
  for (const Dtype& known : dtypes) {
    if (known.name == dtype) return known.bits;
  }
  return 0;
}

[[noreturn]] void fail(std::string_view name, std::uint64_t offset, const std::string& message) {
  throw Error(Problem::malformed, offset, message, std::string(name));
}

[[noreturn]] void fail_twice(std::string_view key, std::uint64_t offset) {
  fail(key, offset, "an object has a key more than once");
}

std::string shown(const std::uint64_t* dims, std::size_t rank) {
  std::string text = "[";
  for (std::size_t axis = 0; axis < rank && text.size() < 60; ++axis) {
    text += (axis == 0 ? "" : ", ") + std::to_string(dims[axis]);
  }
  return text + "]";
}

}  // namespace

Header::Header(Span text, std::uint64_t data_size) : reader_(text, header_begin) {
  // Of most descriptions, at least.
  arrays.reserve(text.size / 64);
  dims.reserve(text.size / 32);
  read_all();
  std::unordered_set<std::string_view, TextHash> names;
  names.reserve(arrays.size());
  for (const Array& array : arrays) {
    if (!names.insert(array.name).second) fail_twice(array.name, header_begin);
  }
  check_cover(header_begin + text.size, data_size);
}

void Header::read_all() {
  if (!reader_.take('{')) {
    throw Error(Problem::malformed, header_begin, "the header is no JSON object");
  }
  bool has_metadata = false;
  if (!reader_.take('}')) {
    do {
      const std::uint64_t offset = reader_.offset();
      const std::string_view name = reader_.string();
      reader_.expect(':');
      if (name != metadata_name) {
        read_array(name);
      } else if (has_metadata) {
        fail_twice(name, offset);
      } else {
        has_metadata = true;
        read_metadata();
      }
    } while (reader_.take(','));
    reader_.expect('}');
  }
  reader_.finish();
}

void Header::read_metadata() {
  const auto refuse = [this] {
    throw Error(Problem::malformed, reader_.offset(), "'__metadata__' is no object of strings");
  };
  if (!reader_.take('{')) refuse();
  if (reader_.take('}')) return;
  std::unordered_set<std::string_view, TextHash> keys;
  do {
    const std::string_view key = reader_.string();
    reader_.expect(':');
    if (reader_.next() != '"') refuse();
    if (!keys.insert(key).second) fail_twice(key, reader_.offset());
    metadata.emplace_back(key, reader_.string());
  } while (reader_.take(','));
  reader_.expect('}');
}

void Header::read_array(std::string_view name) {
  const std::uint64_t offset = reader_.offset();
  const auto refuse = [&] {
    fail(name, offset, "not described by dtype, shape and data_offsets");
  };
  Array array;
  array.name = name;
  bool has_shape = false;
  bool has_offsets = false;
  if (!reader_.take('{')) refuse();
  do {
    if (reader_.next() != '"') refuse();
    const std::string_view field = reader_.string();
    reader_.expect(':');
    if (field == "dtype") {
      if (!array.dtype.empty()) fail_twice(name, offset);
      if (reader_.next() != '"') fail(name, reader_.offset(), "dtype is no string");
      array.dtype = reader_.string();
      if (bits_of(array.dtype) == 0) {
        fail(name, offset,
             "dtype is '" + std::string(array.dtype.substr(0, 60)) + "', which safetensors has not");
      }
    } else if (field == "shape") {
      if (has_shape) fail_twice(name, offset);
      has_shape = true;
      array.dims = dims.size();
      array.rank = read_numbers("shape", array);
    } else if (field == "data_offsets") {
      if (has_offsets) fail_twice(name, offset);
      has_offsets = true;
      const std::size_t first = dims.size();
      const std::size_t count = read_numbers("data_offsets", array);
      if (count != 2 || dims[first] > dims[first + 1]) {
        fail(name, offset,
             "data_offsets are " + shown(dims.data() + first, count) +
                 ", expected a begin and an end");
      }
      array.begin = dims[first];
      array.end = dims[first + 1];
      dims.resize(first);
    } else {
      refuse();
    }
  } while (reader_.take(','));
  reader_.expect('}');
  if (array.dtype.empty() || !has_shape || !has_offsets) refuse();
  check_size(array);
  arrays.push_back(array);
}

// How many numbers a list has, which are appended to the dimensions.
std::size_t Header::read_numbers(const char* field, const Array& array) {
  const std::uint64_t offset = reader_.offset();
  const std::size_t first = dims.size();
  const auto refuse = [&] {
    fail(array.name, offset, std::string(field) + " is no list of numbers of 0 or more");
  };
  if (!reader_.take('[')) refuse();
  if (reader_.take(']')) return 0;
  do {
    std::uint64_t number = 0;
    if (!reader_.natural(number) || number > max_size) refuse();
    if (dims.size() - first == max_rank) {
      fail(array.name, offset,
           "no array has the shape that the header has: it has more than 64 dimensions");
    }
    dims.push_back(number);
  } while (reader_.take(','));
  reader_.expect(']');
  return dims.size() - first;
}

void Header::check_size(const Array& array) const {
  const std::uint64_t bits = bits_of(array.dtype);
  std::uint64_t elements = 1;
  bool is_empty = false;
  bool is_huge = false;
  for (std::size_t axis = 0; axis < array.rank; ++axis) {
    const std::uint64_t size = dims[array.dims + axis];
    if (size == 0) {
      is_empty = true;
    } else if (elements > max_size / bits / size) {
      is_huge = true;
    } else {
      elements *= size;
    }
  }
  const std::uint64_t expected = is_empty ? 0 : elements * bits;
  if ((is_huge && !is_empty) || expected % 8 != 0 || array.end - array.begin != expected / 8) {
    fail(array.name, header_begin,
         std::to_string(array.end - array.begin) + " bytes, expected " +
             (is_huge && !is_empty ? "more than 2^60" : std::to_string(expected / 8)) + " for " +
             std::string(array.dtype) + " of shape " + shown(dims.data() + array.dims, array.rank));
  }
}

void Header::check_cover(std::uint64_t start, std::uint64_t data_size) const {
  std::vector<const Array*> order;
  order.reserve(arrays.size());
  for (const Array& array : arrays) order.push_back(&array);
  const auto is_before = [](const Array* one, const Array* other) {
    return std::tie(one->begin, one->end) < std::tie(other->begin, other->end);
  };
  if (!std::is_sorted(order.begin(), order.end(), is_before)) {
    std::sort(order.begin(), order.end(), is_before);
  }
  std::uint64_t expected = 0;
  for (const Array* array : order) {
    if (array->begin != expected) {
      const char* const what =
          array->begin < expected ? "overlaps the tensor before it" : "leaves a hole";
      fail(array->name, start + array->begin,
           "the data begins at " + std::to_string(array->begin) + ", expected " +
               std::to_string(expected) + ": it " + what);
    }
    expected = array->end;
  }
  if (expected != data_size) {
    throw Error(expected > data_size ? Problem::truncated : Problem::malformed,
                start + std::min(expected, data_size),
                std::to_string(data_size) + " bytes of data, the tensors have " +
                    std::to_string(expected));
  }
}

}  // namespace ferry::safetensors
