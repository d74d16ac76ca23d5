"""A real HDFS on one machine, for development, tests and benchmarks.

NameNodes and DataNodes are the JVMs a production cluster runs, only smaller. ``cluster``
starts and stops them, ``artefacts`` fetches what they run from, ``state`` remembers those
that outlive the command that started them.
"""
