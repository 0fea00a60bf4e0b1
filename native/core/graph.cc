#include "graph.h"

#include <algorithm>
#include <utility>

#include "tensorproto.h"

namespace ferry::graph {

namespace {

enum NodeField : std::uint32_t { name_field = 1, op_field = 2, input_field = 3, attr_field = 5 };
enum EntryField : std::uint32_t { key_field = 1, value_field = 2 };
enum ValueField : std::uint32_t {
  list_field = 1,
  type_field = 6,
  shape_field = 7,
  tensor_field = 8,
  func_field = 10,
};
enum FunctionField : std::uint32_t { signature_field = 1, node_def_field = 3, ret_field = 4 };
enum SignatureField : std::uint32_t { signature_name = 1, input_arg = 2, output_arg = 3 };
enum ArgumentField : std::uint32_t { argument_name = 1, argument_type = 3 };

// Of ListValue and NameAttrList.
constexpr std::uint32_t functions_of_list = 9, name_of_function = 1, attributes_of_function = 2;

// How many keys of a node are compared with each other before a table of them is made.
constexpr std::size_t few = 16;

[[noreturn]] void fail(std::uint64_t offset, std::string message) {
  throw Error(Problem::malformed, offset, std::move(message));
}

[[noreturn]] void fail_twice(const std::string& what, std::uint64_t offset) {
  fail(offset, what + " comes twice, expected once");
}

Wire wire_of_value(std::uint32_t field) {
  switch (field) {
    case 3: case 5: case 6: return Wire::varint;  // i, b, type
    case 4: return Wire::fixed32;                 // f
    default: return Wire::bytes;
  }
}

struct Entry {
  Span key;
  Span value;
};

// An entry of a map of attributes, whose fields stand in any order.
Entry read_any_entry(Span message) {
  Entry entry{{message.data + message.size, 0, message.input},
              {message.data + message.size, 0, message.input}};
  unsigned seen = 0;
  Reader reader(message);
  for (Field field; reader.next(field);) {
    const std::uint32_t number = field.tag.field;
    if (number > value_field) continue;
    if ((seen >> number & 1) != 0) {  // protobuf would merge the two
      fail_twice("field " + std::to_string(number) + " of an attribute", message.offset());
    }
    seen |= 1u << number;
    Reader::expect(field.tag, Wire::bytes);
    if (number == key_field) entry.key = checked_text(field.bytes);
    if (number == value_field) entry.value = field.bytes;
  }
  return entry;
}

// The same, of which nearly all are a key and a value.
Entry read_entry(Span message) {
  constexpr std::uint8_t key_tag = key_field << 3 | 2, value_tag = value_field << 3 | 2;
  Reader reader(message);
  Entry entry;
  if (reader.take_field(key_tag, entry.key) && reader.take_field(value_tag, entry.value) &&
      reader.done()) [[likely]] {
    checked_text(entry.key);
    return entry;
  }
  return read_any_entry(message);
}

[[noreturn]] void fail_value(const Entry& entry, const Field& field, bool second) {
  fail(entry.value.offset(),
       "field " + std::to_string(field.tag.field) + " of the attribute " + quoted(entry.key) +
           (second ? " is a second value"
                   : " has wire type " + std::to_string(static_cast<int>(field.tag.wire))));
}

// The one value of an attribute; of field 0 if there is none.
Field read_value(const Entry& entry) {
  Field found;
  Reader reader(entry.value);
  if (!reader.next(found)) return {};
  if (found.tag.wire != wire_of_value(found.tag.field)) fail_value(entry, found, false);
  if (Field field; reader.next(field)) fail_value(entry, field, true);
  return found;
}

std::int64_t read_size(Span message) {
  std::int64_t size = 0;
  bool seen = false;
  Reader reader(message);
  while (!reader.done()) {
    const Tag tag = reader.tag();
    if (tag.field != 1) {
      reader.skip(tag);
      continue;
    }
    Reader::expect(tag, Wire::varint);
    size = static_cast<std::int64_t>(reader.varint());
    if (std::exchange(seen, true)) fail_twice("size of Dim", tag.offset);
  }
  return size;
}

// A shape in which sizes may be unknown.
void check_shape(Span message) {
  std::size_t rank = 0;
  bool unknown = false, seen = false;
  Reader reader(message);
  while (!reader.done()) {
    const Tag tag = reader.tag();
    if (tag.field == 2) {
      Reader::expect(tag, Wire::bytes);
      const Span dimension = reader.bytes();
      const std::int64_t size = read_size(dimension);
      if (size < -1) {
        fail(dimension.offset(), "dimension " + std::to_string(rank) + " is " +
                                     std::to_string(size) + ", expected at least -1");
      }
      ++rank;
    } else if (tag.field == 3) {
      Reader::expect(tag, Wire::varint);
      unknown = reader.varint() != 0;
      if (std::exchange(seen, true)) fail_twice("unknown_rank of TensorShapeProto", tag.offset);
    } else {
      reader.skip(tag);
    }
  }
  if (unknown && rank != 0) {
    fail(message.offset(), "a shape of unknown rank with " + std::to_string(rank) + " sizes");
  }
  if (rank > tensorproto::max_dimensions) {
    throw Error(Problem::limit, message.offset(),
                std::to_string(rank) + " dimensions, at most " +
                    std::to_string(tensorproto::max_dimensions) + " are known");
  }
}

// The value of an attribute, if it is of that field; nullptr if there is none.
const Field* find_value(const Node& node, std::string_view key, std::uint32_t field) {
  for (const Attribute& attribute : node.attributes) {
    if (view(attribute.key) != key) continue;
    return attribute.value.tag.field == field ? &attribute.value : nullptr;
  }
  return nullptr;
}

Span constant_of(const Node& node, std::uint64_t offset) {
  const Field* const value = find_value(node, "value", tensor_field);
  if (value == nullptr) {
    throw Error(Problem::malformed, offset, "a Const node without a tensor as its value",
                shortened(node.name));
  }
  try {
    tensorproto::scan(value->bytes);
  } catch (const Error& error) {
    throw Error(error.problem(), error.offset(), error.what(), shortened(node.name));
  }
  return value->bytes;
}

Variable variable_of(const Node& node, Span message) {
  const Field* const value = find_value(node, "dtype", type_field);
  if (value == nullptr) return {message, 0, message.offset()};
  return {message, value->value, value->tag.offset};
}

// What is done with the nodes of an op.
enum class Role : std::uint8_t { counted, constant, variable, watched };

Role role_of(Span op, const Ops& ops) {
  if (view(op) == "Const") return Role::constant;
  if (ops.variables.has(op)) return Role::variable;
  return ops.watched.has(op) ? Role::watched : Role::counted;
}

// A field of that wire type, which comes once unless it may come again.
void check_field(const Field& field, Wire wire, const char* name, bool again = false) {
  const bool placed = field.tag.wire == Wire::bytes;
  const std::uint64_t offset = placed ? field.bytes.offset() : field.tag.offset;
  if (field.tag.wire != wire) {
    fail(offset, std::string(name) + " has wire type " +
                     std::to_string(static_cast<int>(field.tag.wire)) + ", expected " +
                     std::to_string(static_cast<int>(wire)));
  }
  if (again) fail_twice(name, offset);
}

void keep_each_once(std::vector<std::uint64_t>& numbers) {
  std::sort(numbers.begin(), numbers.end());
  numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
}

std::uint64_t dtype_of_argument(Span message) {
  std::uint64_t dtype = 0;
  bool named = false, typed = false;
  Reader reader(message);
  for (Field field; reader.next(field);) {
    if (field.tag.field == argument_name) {
      check_field(field, Wire::bytes, "name of ArgDef", std::exchange(named, true));
      checked_text(field.bytes);
    } else if (field.tag.field == argument_type) {
      check_field(field, Wire::varint, "type of ArgDef", std::exchange(typed, true));
      dtype = field.value;
    }
  }
  return dtype;
}

// The name of a function, and what its arguments are.
void read_signature(Function& function) {
  bool named = false;
  Reader reader(function.signature);
  for (Field field; reader.next(field);) {
    switch (field.tag.field) {
      case signature_name:
        check_field(field, Wire::bytes, "name of OpDef", std::exchange(named, true));
        function.name = checked_text(field.bytes);
        break;
      case input_arg:
      case output_arg:
        check_field(field, Wire::bytes,
                    field.tag.field == input_arg ? "input_arg of OpDef" : "output_arg of OpDef");
        function.dtypes.push_back(dtype_of_argument(field.bytes));
        break;
      default: break;
    }
  }
  keep_each_once(function.dtypes);
}

Function read_function(Span message) {
  Function function;
  function.name = {message.data, 0, message.input};
  constexpr std::uint8_t node_tag = node_def_field << 3 | 2;
  bool has_signature = false;
  Reader reader(message);
  for (Field field;;) {
    Span node;
    while (reader.take_field(node_tag, node)) continue;  // who walks over them checks them
    if (!reader.next(field)) break;
    if (field.tag.field == signature_field) {
      check_field(field, Wire::bytes, "signature of FunctionDef", std::exchange(has_signature, true));
      function.signature = field.bytes;
    } else if (field.tag.field == ret_field) {
      check_field(field, Wire::bytes, "ret of FunctionDef");
    }
  }
  if (!has_signature) fail(message.offset(), "a function without a signature");
  read_signature(function);
  return function;
}

// The nodes of a function, whose name comes first where an error names one of them.
Nodes walk_function(Span message, const Function& function, const Ops& ops, std::int64_t depth) {
  try {
    return walk(message, node_def_field, ops, depth);
  } catch (const Error& error) {
    if (function.name.size == 0 || error.tensor().empty()) throw;
    throw Error(error.problem(), error.offset(), error.what(),
                shortened(function.name, 40) + ":" + error.tensor());
  }
}

// Counts texts, in the order in which they come.
class Counted {
 public:
  // Where a text stands; the number of new ones is that before them.
  Texts::Found add(Span text, std::uint64_t count) {
    const Texts::Found found = texts_.add(text);
    if (found.is_new) named.push_back({text, 0});
    named[found.number].count += count;
    return found;
  }

  std::vector<Named> named;

 private:
  Texts texts_;
};

}  // namespace

const Node& NodeReader::read(Span message) {
  node_.name = node_.op = {};
  node_.attributes.clear();
  node_.functions.clear();
  constexpr std::uint8_t input_tag = input_field << 3 | 2, attr_tag = attr_field << 3 | 2;
  unsigned seen = 0;
  Reader reader(message);
  for (Field field;;) {
    Span part;  // of most nodes, nearly all fields are these
    while (reader.take_field(input_tag, part)) continue;
    while (reader.take_field(attr_tag, part)) read_attribute(part);
    if (!reader.next(field)) break;
    const std::uint32_t number = field.tag.field;
    if (number == input_field || number > attr_field) continue;
    if (field.tag.wire != Wire::bytes) {
      fail(field.tag.offset, "field " + std::to_string(number) + " of a node has wire type " +
                                 std::to_string(static_cast<int>(field.tag.wire)) + ", expected 2");
    }
    if (number == attr_field) {
      read_attribute(field.bytes);
      continue;
    }
    if ((seen >> number & 1) != 0) {
      fail_twice("field " + std::to_string(number) + " of a node", field.tag.offset);
    }
    seen |= 1u << number;
    if (number == op_field) node_.op = checked_text(field.bytes);
    if (number == name_field) node_.name = checked_text(field.bytes);
  }
  if (node_.name.size == 0 || node_.op.size == 0) {
    throw Error(Problem::malformed, message.offset(),
                node_.name.size == 0 ? "a node without a name" : "a node without an op",
                shortened(node_.name));
  }
  // Which stands between a node and the number of its output.
  if (view(node_.name).find(':') != std::string_view::npos) {
    fail(message.offset(), "a node is called " + quoted(node_.name) + ", with a colon");
  }
  return node_;
}

void NodeReader::read_attribute(Span message) {
  const Entry entry = read_entry(message);
  const Field value = read_value(entry);
  auto& attributes = node_.attributes;
  bool again = false;
  if (attributes.size() < few) {
    for (const Attribute& before : attributes) again |= view(before.key) == view(entry.key);
  } else {
    if (attributes.size() == few) {
      keys_.clear();
      for (const Attribute& before : attributes) keys_.add(before.key);
    }
    again = !keys_.add(entry.key).is_new;
  }
  if (again) {
    fail_twice("the attribute " + quoted(entry.key) + " of the node " + quoted(node_.name),
               message.offset());
  }
  attributes.push_back({message, entry.key, value});
  const std::uint32_t field = value.tag.field;
  if (field == shape_field) check_shape(value.bytes);
  if (field == list_field || field == func_field) find_functions(field, value.bytes);
}

void NodeReader::find_functions(std::uint32_t field, Span message) {
  const auto enter = [this](std::uint32_t kind, Span inner, std::int64_t depth) {
    if (depth < 0) {
      throw Error(Problem::limit, inner.offset(),
                  "attributes nest deeper than " + std::to_string(depth_) + " messages");
    }
    open_.push_back({kind == list_field, depth, Reader(inner), {inner.data, 0, inner.input}, false});
  };
  open_.clear();
  enter(field, message, depth_);
  while (!open_.empty()) {
    Open& within = open_.back();  // until the next `enter`
    Field inner;
    if (!within.reader.next(inner)) {
      if (!within.is_list) node_.functions.push_back(within.name);
      open_.pop_back();
      continue;
    }
    const std::uint32_t number = inner.tag.field;
    if (within.is_list ? number != functions_of_list
                       : number != name_of_function && number != attributes_of_function) {
      continue;
    }
    Reader::expect(inner.tag, Wire::bytes);
    if (within.is_list) {
      enter(func_field, inner.bytes, within.depth - 1);
    } else if (number == name_of_function) {
      within.name = checked_text(inner.bytes);
      if (std::exchange(within.named, true)) fail_twice("name of NameAttrList", inner.bytes.offset());
    } else {
      const Field value = read_value(read_entry(inner.bytes));
      const std::uint32_t kind = value.tag.field;
      if (kind == list_field || kind == func_field) enter(kind, value.bytes, within.depth - 3);
    }
  }
}

Nodes walk(Span message, std::uint32_t field, const Ops& ops, std::int64_t depth) {
  Nodes nodes;
  Texts names;
  Counted named;
  std::vector<Role> roles;  // of the named
  const auto mention = [&](Span text, std::uint64_t count) {
    const Texts::Found found = named.add(text, count);
    if (found.is_new) roles.push_back(role_of(text, ops));
    return roles[found.number];
  };
  NodeReader each(depth);
  Reader reader(message);
  for (Field outer; reader.next(outer);) {
    if (outer.tag.field != field) continue;
    Reader::expect(outer.tag, Wire::bytes);
    const Node& node = each.read(outer.bytes);
    if (!names.add(node.name).is_new) {
      fail_twice("the node " + quoted(node.name), outer.bytes.offset());
    }
    const Role role = mention(node.op, 1);
    for (const Span function : node.functions) mention(function, 0);
    switch (role) {
      case Role::counted: break;
      case Role::constant:
        nodes.constants.push_back({node.name, constant_of(node, outer.bytes.offset())});
        break;
      case Role::variable: nodes.variables.push_back(variable_of(node, outer.bytes)); break;
      case Role::watched: nodes.watched.push_back(node); break;
    }
  }
  nodes.count = names.size();
  nodes.named = std::move(named.named);
  return nodes;
}

Library walk_functions(const std::vector<Span>& messages, const Ops& ops, std::int64_t depth) {
  Library library;
  Texts names;
  Counted counted;
  for (const Span message : messages) {
    Function& function = library.functions.emplace_back(read_function(message));
    if (!names.add(function.name).is_new) {
      fail_twice("the function " + quoted(function.name), message.offset());
    }
    function.nodes = walk_function(message, function, ops, depth);
    for (const Named& each : function.nodes.named) {
      if (each.count != 0) counted.add(each.text, each.count);
    }
  }
  // Which names are those of functions is known when all have been read.
  for (Function& function : library.functions) {
    for (const Named& each : function.nodes.named) {
      const auto found = names.find(each.text);
      if (found) function.calls.push_back(*found);
    }
    function.nodes.named = {};
  }
  library.ops = std::move(counted.named);
  return library;
}

}  // namespace ferry::graph
