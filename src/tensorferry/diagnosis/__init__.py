"""Diagnosis: why an object cannot be saved or pickled, and what to do about it.

report = ferry.diagnose(model)      # the object is looked at, and never called
print(report)                       # attribute by attribute, with reasons and cures

diagnose       brings the answers of all ways of saving together
report         the result, as data and as text
pickling       what pickle and cloudpickle do with the object
tracking       what SavedModels, .keras files and weights keep of it
structure      what the object is made of, without the frameworks' own attributes
object_walk    the walk over a living object
recipes        a short program that rebuilds the object from its weights
cures          one thing to do about each kind of trouble
"""
