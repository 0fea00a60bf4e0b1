#include "tensorproto.h"

#include <limits>

namespace ferry::tensorproto {

namespace {

enum Field : std::uint32_t {
  dtype_field = 1,
  shape_field = 2,
  version_field = 3,
  content_field = 4,
  string_field = 8,
  resource_field = 14,
  variant_field = 15,
  float8_field = 18,
};

// The wire type of one value of a repeated field, when it does not come packed.
Wire value_wire(std::uint32_t field) {
  switch (field) {
    case 5: case 9: return Wire::fixed32;                // float_val, scomplex_val
    case 6: case 12: return Wire::fixed64;               // double_val, dcomplex_val
    case string_field: case resource_field: case variant_field: case float8_field: return Wire::bytes;
    default: return Wire::varint;                        // int, int64, bool, half, uint32, uint64
  }
}

void read_dimension(Span message, Tensor& tensor) {
  if (tensor.rank == max_dimensions) {
    throw Error(Problem::limit, message.offset(),
                "more than " + std::to_string(max_dimensions) + " dimensions");
  }
  std::uint64_t size = 0;
  Reader reader(message);
  while (!reader.done()) {
    const Tag tag = reader.tag();
    if (tag.field == 1) {
      Reader::expect(tag, Wire::varint);
      size = reader.varint();
    } else {
      reader.skip(tag);
    }
  }
  const auto dimension = static_cast<std::int64_t>(size);
  if (dimension < 0) {
    throw Error(Problem::malformed, message.offset(),
                "dimension " + std::to_string(tensor.rank) + " is " + std::to_string(dimension) +
                    ", expected 0 or more");
  }
  tensor.dims[tensor.rank++] = dimension;
}

void read_shape(Span message, Tensor& tensor) {
  Reader reader(message);
  while (!reader.done()) {
    const Tag tag = reader.tag();
    if (tag.field == 2) {
      Reader::expect(tag, Wire::bytes);
      read_dimension(reader.bytes(), tensor);
    } else if (tag.field == 3) {
      Reader::expect(tag, Wire::varint);
      if (reader.varint() != 0) {
        throw Error(Problem::malformed, tag.offset,
                    "the shape has no known rank: this describes a tensor and holds none");
      }
    } else {
      reader.skip(tag);
    }
  }
}

// Zero dimensions are left out of the bound: a shape of [2^62, 2^62, 0] is as absurd as without.
std::uint64_t count_elements(const Tensor& tensor, std::uint64_t offset) {
  std::uint64_t bound = 1;
  bool empty = false;
  for (std::size_t axis = 0; axis < tensor.rank; ++axis) {
    const auto size = static_cast<std::uint64_t>(tensor.dims[axis]);
    if (size == 0) {
      empty = true;
    } else if (bound > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()) / size) {
      throw Error(Problem::limit, offset, "the shape has more than 2^63 elements");
    } else {
      bound *= size;
    }
  }
  return empty ? 0 : bound;
}

}  // namespace

Tensor scan(Span input) {
  Tensor tensor;
  std::uint64_t shape_offset = input.offset();
  Reader reader(input);
  while (!reader.done()) {
    const Tag tag = reader.tag();
    switch (tag.field) {
      case dtype_field:
        Reader::expect(tag, Wire::varint);
        tensor.dtype = reader.varint();
        break;
      case shape_field:
        Reader::expect(tag, Wire::bytes);
        shape_offset = tag.offset;
        read_shape(reader.bytes(), tensor);
        break;
      case content_field:
        Reader::expect(tag, Wire::bytes);
        tensor.content = reader.bytes();
        break;
      case version_field:
        Reader::expect(tag, Wire::varint);
        reader.varint();
        break;
      default:
        if (tag.field > float8_field) {
          reader.skip(tag);
        } else if (tag.wire == Wire::bytes) {
          const Span value = reader.bytes();
          const bool packed = value_wire(tag.field) != Wire::bytes;
          // An empty packed run or float8_val holds nothing; an empty string is a value.
          const bool holds = value.size > 0 || (!packed && tag.field != float8_field);
          if (holds) tensor.held |= std::uint64_t{1} << tag.field;
        } else {
          Reader::expect(tag, value_wire(tag.field));
          reader.skip(tag);
          tensor.held |= std::uint64_t{1} << tag.field;
        }
    }
  }
  tensor.elements = count_elements(tensor, shape_offset);
  return tensor;
}

namespace {

// Takes values one by one, in whatever runs the wire brings them, until `out` is full.
class Filler {
 public:
  Filler(const Values& values, std::uint8_t* out, std::size_t size)
      : values_(values), out_(out), at_(out), end_(out + size) {}

  bool full() const { return at_ == end_; }

  void one(Reader& reader) {
    const std::uint64_t offset = reader.offset();
    std::uint64_t value = 0;
    if (values_.kind == Kind::fixed) {
      value = values_.width == 4 ? reader.fixed32() : reader.fixed64();
    } else {
      value = reader.varint();
      if (values_.kind == Kind::boolean) {
        value = value != 0;
      } else {
        check(value, offset);
        if (values_.bits < 64) value &= (std::uint64_t{1} << values_.bits) - 1;
      }
    }
    std::memcpy(at_, &value, values_.width);
    at_ += values_.width;
  }

  void packed(Span run) {
    Reader reader(run);
    if (values_.kind == Kind::fixed) {
      if (run.size % values_.width != 0) {
        throw Error(Problem::malformed, run.offset(),
                    std::to_string(run.size) + " bytes of packed values of " +
                        std::to_string(values_.width) + " bytes each");
      }
      const std::size_t room = static_cast<std::size_t>(end_ - at_);
      const std::size_t size = run.size < room ? run.size : room;
      if (size > 0) std::memcpy(at_, run.data, size);
      at_ += size;
      return;
    }
    while (!reader.done() && !full()) one(reader);
  }

  void raw(Span bytes) {
    const std::size_t room = static_cast<std::size_t>(end_ - at_);
    const std::size_t size = bytes.size < room ? bytes.size : room;
    if (size > 0) std::memcpy(at_, bytes.data, size);
    at_ += size;
  }

  void restart() { at_ = out_; }

  void finish(std::uint64_t offset) {
    const std::size_t element = values_.width * values_.group;
    const std::size_t filled = static_cast<std::size_t>(at_ - out_);
    if (filled % element != 0) {
      throw Error(Problem::malformed, offset,
                  "field " + std::to_string(values_.field) + " ends inside a complex number");
    }
    if (full()) return;
    if (filled == 0) {
      std::memset(out_, 0, static_cast<std::size_t>(end_ - out_));
      return;
    }
    // Doubling from the last element: the source always lies before what is written.
    const std::uint8_t* last = at_ - element;
    std::size_t ready = element;
    while (!full()) {
      const std::size_t room = static_cast<std::size_t>(end_ - at_);
      const std::size_t size = ready < room ? ready : room;
      std::memcpy(at_, last, size);
      at_ += size;
      ready += size;
    }
  }

 private:
  void check(std::uint64_t value, std::uint64_t offset) const {
    if (values_.bits == 64) return;
    if (values_.kind == Kind::unsigned_integer) {
      if (value >> values_.bits == 0) return;
    } else {
      const auto number = static_cast<std::int64_t>(value);
      const std::int64_t limit = std::int64_t{1} << (values_.bits - 1);
      if (number >= -limit && number < limit) return;
    }
    throw Error(Problem::malformed, offset,
                "value " + std::to_string(static_cast<std::int64_t>(value)) + " does not fit " +
                    std::to_string(values_.bits) + " bits");
  }

  const Values values_;
  std::uint8_t* const out_;
  std::uint8_t* at_;
  std::uint8_t* const end_;
};

}  // namespace

void fill(Span input, const Values& values, std::uint8_t* out, std::size_t size) {
  Filler filler(values, out, size);
  Reader reader(input);
  while (!reader.done()) {
    const Tag tag = reader.tag();
    if (tag.field != values.field) {
      reader.skip(tag);
    } else if (values.field == float8_field) {
      Reader::expect(tag, Wire::bytes);
      filler.restart();  // a single bytes field, not a repeated one: the last one counts
      filler.raw(reader.bytes());
    } else if (tag.wire == Wire::bytes) {
      filler.packed(reader.bytes());
    } else {
      Reader::expect(tag, value_wire(tag.field));
      if (filler.full()) {
        reader.skip(tag);
      } else {
        filler.one(reader);
      }
    }
  }
  filler.finish(input.offset() + input.size);
}

std::vector<Span> string_values(Span input) {
  std::vector<Span> strings;
  Reader reader(input);
  while (!reader.done()) {
    const Tag tag = reader.tag();
    if (tag.field == string_field) {
      Reader::expect(tag, Wire::bytes);
      strings.push_back(reader.bytes());
    } else {
      reader.skip(tag);
    }
  }
  return strings;
}

std::string header(std::uint64_t dtype, const std::int64_t* dims, std::size_t rank,
                   std::uint64_t content_size) {
  // A dimension of 0 is an empty message: proto3 leaves zeros out.
  const auto dimension_size = [](std::int64_t size) {
    return size == 0 ? 0 : 1 + varint_size(static_cast<std::uint64_t>(size));
  };
  std::size_t shape_size = 0;
  for (std::size_t axis = 0; axis < rank; ++axis) shape_size += 2 + dimension_size(dims[axis]);

  std::string text(1 + varint_size(dtype) + 1 + varint_size(shape_size) + shape_size +
                       (content_size == 0 ? 0 : 1 + varint_size(content_size)),
                   '\0');
  auto* out = reinterpret_cast<std::uint8_t*>(text.data());
  *out++ = 0x08;
  out = put_varint(out, dtype);
  *out++ = 0x12;
  out = put_varint(out, shape_size);
  for (std::size_t axis = 0; axis < rank; ++axis) {
    *out++ = 0x12;
    *out++ = static_cast<std::uint8_t>(dimension_size(dims[axis]));
    if (dims[axis] != 0) {
      *out++ = 0x08;
      out = put_varint(out, static_cast<std::uint64_t>(dims[axis]));
    }
  }
  if (content_size != 0) {
    *out++ = 0x22;
    put_varint(out, content_size);
  }
  return text;
}

std::uint64_t strings_size(const std::vector<Span>& strings) {
  std::uint64_t size = 0;
  for (const Span& string : strings) size += 1 + varint_size(string.size) + string.size;
  return size;
}

void put_strings(const std::vector<Span>& strings, std::uint8_t* out) {
  for (const Span& string : strings) {
    *out++ = string_field << 3 | static_cast<std::uint8_t>(Wire::bytes);
    out = put_varint(out, string.size);
    if (string.size > 0) std::memcpy(out, string.data, string.size);
    out += string.size;
  }
}

}  // namespace ferry::tensorproto
