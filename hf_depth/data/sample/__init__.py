"""The embedded sample of real text; LICENSES.md says where it is from, build_sample.py makes it."""
