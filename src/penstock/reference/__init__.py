"""Reference: what every public name does, from its signature, its docstring and a trial on an empty document."""
