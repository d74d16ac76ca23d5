"""Records programs that know nothing of headrace.

``probe`` runs inside the traced program and writes what it sees to a spool; everything else runs
in ``headrace trace run``, which starts the program and turns the spool into a trace.
"""
