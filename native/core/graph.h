// The nodes of a GraphDef, or of a function in its library, checked and counted in one walk.
//
//     NodeDef    1 name | 2 op | 3 input | 4 device | 5 attr { 1 key | 2 value }
//     AttrValue  one of 1 list | 2 s | 3 i | 4 f | 5 b | 6 type | 7 shape | 8 tensor | 10 func
//
// A node must have a name, which no other one has, and an op; an attribute has one value; a Const
// has a sound tensor. What ops mean is known in Python (formats/savedmodel): the nodes that it asks
// for are given with their attributes. Of a function, the arguments are checked, too:
//
//     FunctionDef  1 signature | 3 node_def | 4 ret
//     OpDef        1 name | 2 input_arg | 3 output_arg, each { 1 name | 3 type }
#pragma once

#include <vector>

#include "text.h"

namespace ferry::graph {

struct Attribute {
  Span entry;
  Span key;
  Field value;  // of field 0: there is none
};

// One node, and the functions that its attributes name, in any depth.
struct Node {
  Span name;
  Span op;
  std::vector<Attribute> attributes;
  std::vector<Span> functions;
};

// An op or a function, and how many nodes have it as their op: none if only attributes name it.
struct Named {
  Span text;
  std::uint64_t count;
};

struct Constant {
  Span name;
  Span tensor;
};

// A node that holds a variable, and the number that its attribute "dtype" is; 0 if it has none.
struct Variable {
  Span node;
  std::uint64_t dtype;
  std::uint64_t offset;  // of that number
};

struct Nodes {
  std::uint64_t count = 0;
  std::vector<Named> named;
  std::vector<Constant> constants;
  std::vector<Variable> variables;
  std::vector<Node> watched;
};

// The ops that are looked at: those that hold a variable, and those whose nodes are given whole.
struct Ops {
  Texts variables;
  Texts watched;
};

// Reads nodes one by one, and keeps its memory from one to the next.
class NodeReader {
 public:
  // Attributes may nest `depth` messages deep.
  explicit NodeReader(std::int64_t depth) noexcept : depth_(depth) {}

  // What it gives is valid until the next call.
  const Node& read(Span message);

 private:
  // A list or a function that is read, inside others.
  struct Open {
    bool is_list;
    std::int64_t depth;  // how many messages it may still hold inside each other
    Reader reader;
    Span name;
    bool named;
  };

  void read_attribute(Span entry);
  void find_functions(std::uint32_t field, Span message);

  std::int64_t depth_;
  Node node_;
  Texts keys_;
  std::vector<Open> open_;
};

// All nodes that stand in a field of a message.
Nodes walk(Span message, std::uint32_t field, const Ops& ops, std::int64_t depth);

// A function, the functions of its library that it names, and the numbers of the dtypes of its
// arguments and results, each once.
struct Function {
  Span name;
  Span signature;
  std::vector<std::uint64_t> dtypes;
  std::vector<std::size_t> calls;  // their places in the library
  Nodes nodes;
};

// Functions, no two of which have one name, and the ops of all their nodes.
struct Library {
  std::vector<Function> functions;
  std::vector<Named> ops;
};

Library walk_functions(const std::vector<Span>& messages, const Ops& ops, std::int64_t depth);

}  // namespace ferry::graph
